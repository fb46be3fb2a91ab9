"""Typed expressions over Arrow columns: compiled once per plan, called once per batch.

The entry points are here: `compile_expr` for values, `compile_condition` and `compile_filter` for predicates,
`as_array` for a result as a column. Inside, from the outside in:

- conditions: predicates to masks or positions;
- compiler: chooses how an expression is evaluated: by operations or branches, over operands;
- comparing, numbers, rounding, strings, times: what operators and functions do with columns, as Spark does it;
- casts, and text_casts with number_texts and time_texts: CAST and TRY_CAST;
- registered: the user's own functions;
- raising, some_rows: an expression that may fail is evaluated only on the rows that need it;
- values: a result as a column or a mask.
"""

from millstream.engine.expressions.comparing import compared_as as compared_as
from millstream.engine.expressions.compiler import compile_expr as compile_expr
from millstream.engine.expressions.conditions import compile_condition as compile_condition
from millstream.engine.expressions.conditions import compile_filter as compile_filter
from millstream.engine.expressions.some_rows import ColumnLookup as ColumnLookup
from millstream.engine.expressions.values import as_array as as_array

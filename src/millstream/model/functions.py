"""The scalar functions of the language, and how users register their own.

A function declares what it takes and returns; nothing is ever looked up by name in Python. A registered function
gets whole columns (NumPy arrays) and returns one, so it is called once a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from millstream.errors import InternalError, ScriptError, listing
from millstream.model import types
from millstream.model.expr import Expr, Literal
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType, Family

Returns = Callable[[Sequence[Expr]], DataType]
ANY = "any"
SAME = "same"
ORDERED = "ordered"
"""All comparable types (all but ARRAY, MAP and STRUCT); all such arguments have a common type."""
_OF_NULL = {Family.STRING: STRING, Family.NUMBER: DOUBLE, Family.TIME: TIMESTAMP, Family.BOOLEAN: BOOLEAN}


@dataclass(frozen=True, slots=True)
class Function:
    """The signature of a function.

    `takes` names a family, 'any', 'same', 'ordered' or an exact type per argument; `constants` the positions, from 0,
    of arguments that are fixed for all rows.
    """

    name: str
    takes: tuple[Family | DataType | str, ...]
    returns: Returns
    optional: int = 0
    variadic: bool = False
    constants: tuple[int, ...] = ()
    call: Callable[..., object] | None = None

    def __call__(self, *columns: object) -> object:
        """Calls the Python function itself, so that one that is decorated can still be called and tested."""
        if self.call is None:
            raise InternalError(f"{self.name} has no body")
        return self.call(*columns)

    def result(self, args: Sequence[Expr]) -> DataType:
        """The type of the result; refuses arguments the function does not take."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        if len(args) < least or (len(args) > most and not self.variadic):
            raise self._refusal(f"{self.name} got {_count(len(args))}")
        kinds = [arg.type for arg in args]
        for position, arg in enumerate(args):
            if not _accepts(self.wanted(position), arg.type, kinds):
                pair = too_wide(kinds) if self.wanted(position) in (SAME, ORDERED) else None
                if pair is not None:
                    raise ScriptError(f"{self.name} got {pair[0]} and {pair[1]}", TOO_WIDE, "CAST one of them.")
                raise self._refusal(f"{self.name} got {arg.type} as argument {position + 1}")
            if position in self.constants and not isinstance(arg, Literal):
                found = f"argument {position + 1} of {self.name} is not a constant"
                raise ScriptError(found, "it is one value for all rows", "Write a number or a text in '...'.")
        return self.returns(args)

    def wanted(self, position: int) -> Family | DataType | str:
        return self.takes[min(position, len(self.takes) - 1)]

    def of_null(self, position: int) -> DataType | None:
        """The type of a NULL as this argument, where the function fixes it."""
        wanted = self.wanted(position)
        if isinstance(wanted, DataType):
            return wanted
        return _OF_NULL[wanted] if isinstance(wanted, Family) else None

    @property
    def signature(self) -> str:
        required = len(self.takes) - self.optional
        words = [str(kind).lower() if not isinstance(kind, DataType) else str(kind) for kind in self.takes]
        words = [word if i < required else f"[{word}]" for i, word in enumerate(words)]
        return f"{self.name}({', '.join(words)}{', ...' if self.variadic else ''})"

    def _refusal(self, found: str) -> ScriptError:
        return ScriptError(found, f"it is {self.signature}", "Change the arguments, or CAST them.")


def _count(n: int) -> str:
    return "no argument" if n == 0 else "1 argument" if n == 1 else f"{n} arguments"


def _accepts(wanted: Family | DataType | str, arg: DataType, args: Sequence[DataType]) -> bool:
    if arg.family == Family.NULL or wanted == ANY:
        return True
    if wanted in (SAME, ORDERED):
        return (wanted == SAME or arg.family != Family.NESTED) and widest(args) is not None
    if isinstance(wanted, DataType):
        return types.common(arg, wanted) == wanted
    return arg.family == wanted


def _always(kind: DataType) -> Returns:
    return lambda _: kind


def _first(args: Sequence[Expr]) -> DataType:
    return args[0].type


def _number(args: Sequence[Expr]) -> DataType:
    return DOUBLE if args[0].type.family == Family.NULL else args[0].type


def widest(kinds: Sequence[DataType]) -> DataType | None:
    """The type that all can be converted to, or None where two of them have no common type."""
    # Beside a FLOAT or DOUBLE every number becomes DOUBLE, also those that no DECIMAL can hold together.
    first, *others = sorted(kinds, key=lambda kind: not kind.is_float)
    result: DataType | None = first
    for kind in others:
        result = types.common(result, kind) if result is not None else None
    return result


TOO_WIDE = f"no DECIMAL can hold both, as it would have more than {types.MOST_DIGITS} digits"


def too_wide(kinds: Sequence[DataType]) -> tuple[DataType, DataType] | None:
    """Two of these types that no DECIMAL can hold both; None where that is not why they have no common type."""
    if any(kind.family not in (Family.NUMBER, Family.NULL) for kind in kinds):
        return None
    pairs = combinations(dict.fromkeys(kinds), 2)
    return next((pair for pair in pairs if types.common(*pair) is None), None)


def _widest(args: Sequence[Expr]) -> DataType:
    found = widest([arg.type for arg in args])
    if found is None:
        names = " and ".join(dict.fromkeys(str(arg.type) for arg in args))
        valid = TOO_WIDE if too_wide([arg.type for arg in args]) else "the arguments become one type"
        raise ScriptError(f"{names} have no type in common", valid, "CAST one of them.")
    return found


def _whole(args: Sequence[Expr]) -> DataType:
    """floor and ceil."""
    kind = args[0].type
    if kind.name != "DECIMAL":
        return BIGINT
    precision, scale = types.digits(kind)
    return kind if scale == 0 else types.decimal(precision - scale + 1, 0)


def _rounded(args: Sequence[Expr]) -> DataType:
    kind = _number(args)
    if kind.name != "DECIMAL":
        return kind
    precision, scale = types.digits(kind)
    kept = rounding_digits(args)
    whole = precision - scale + 1
    if kept < 0:
        return types.decimal(min(max(whole, 1 - kept), types.MOST_DIGITS), 0)
    kept = min(kept, scale)
    return types.decimal(min(whole + kept, types.MOST_DIGITS), kept)


def rounding_digits(args: Sequence[Expr]) -> int:
    """The number of digits after the point that `round` keeps."""
    digits = args[1] if len(args) > 1 else None
    return int(digits.value) if isinstance(digits, Literal) and digits.value is not None else 0


_N, _S, _T = Family.NUMBER, Family.STRING, Family.TIME


def _builtins() -> dict[str, Function]:
    table = [
        Function("abs", (_N,), _number),
        Function("sign", (_N,), _always(DOUBLE)),
        Function("round", (_N, INT), _rounded, optional=1, constants=(1,)),
        Function("floor", (_N,), _whole),
        Function("ceil", (_N,), _whole),
        Function("power", (_N, _N), _always(DOUBLE)),
        Function("greatest", (ORDERED, ORDERED), _widest, variadic=True),
        Function("least", (ORDERED, ORDERED), _widest, variadic=True),
        Function("if", (Family.BOOLEAN, ANY, ANY), lambda args: _widest(args[1:])),
        Function("coalesce", (SAME,), _widest, variadic=True),
        Function("nullif", (ORDERED, ORDERED), _first),
        Function("length", (_S,), _always(INT)),
        Function("upper", (_S,), _always(STRING)),
        Function("lower", (_S,), _always(STRING)),
        Function("trim", (_S,), _always(STRING)),
        Function("ltrim", (_S,), _always(STRING)),
        Function("rtrim", (_S,), _always(STRING)),
        Function("substring", (_S, INT, INT), _always(STRING), optional=1, constants=(1, 2)),
        Function("replace", (_S, _S, _S), _always(STRING), constants=(1, 2)),
        Function("concat", (_S,), _always(STRING), variadic=True),
        Function("startswith", (_S, _S), _always(BOOLEAN), constants=(1,)),
        Function("endswith", (_S, _S), _always(BOOLEAN), constants=(1,)),
        Function("contains", (_S, _S), _always(BOOLEAN), constants=(1,)),
    ]
    table += [Function(name, (_N,), _always(DOUBLE)) for name in ("sqrt", "exp", "ln", "log10", "sin", "cos", "tan")]
    table += [Function(name, (_T,), _always(INT)) for name in ("year", "month", "day", "hour", "minute", "second")]
    return {function.name: function for function in table}


BUILTINS: Mapping[str, Function] = _builtins()
# Words that the grammar does not read as a function's name.
_GRAMMAR = ("case", "cast", "try_cast", "extract", "interval", "in", "not", "and", "or", "select")


def function(returns: str, *takes: str, name: str | None = None) -> Callable[[Callable[..., object]], Function]:
    """Registers a Python function for use in scripts: `@function("BOOLEAN", "DOUBLE", "DOUBLE")`."""
    result = _plain(returns)
    arguments = tuple(map(_plain, takes))

    def register(call: Callable[..., object]) -> Function:
        sql_name = str(name or getattr(call, "__name__", "")).lower()
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", sql_name):
            raise ScriptError(
                f"'{sql_name}' cannot be a function's name", "a name is letters, digits and _", "Pass name='...'."
            )
        if sql_name in BUILTINS or sql_name in _GRAMMAR:
            raise ScriptError(f"there is a built-in function {sql_name}", "names must differ", "Choose another name.")
        if not arguments:
            raise ScriptError(f"{sql_name} takes nothing", "a function takes columns", "Declare its arguments' types.")
        return Function(sql_name, arguments, _always(result), call=call)

    return register


def _plain(name: str) -> DataType:
    """The type of a registered function's argument or result: a plain one, or an ARRAY of a plain one."""
    array = re.fullmatch(r"\s*array\s*<\s*(\w+)\s*>\s*", name, re.IGNORECASE)
    if array is not None:
        return types.array(types.simple(array[1]))
    if re.search(r"[(<]", name):
        raise ScriptError(
            f"a function with {name}",
            f"functions take and give {listing(types.PLAIN, 20)}, and ARRAYs of these",
            "Use one of these, and CAST or a field of it in the script.",
        )
    return types.simple(name)

"""The scalar functions of the language, and how users register their own.

A function declares what it takes and returns; nothing is ever looked up by name in Python. A registered function
gets whole columns (NumPy or Arrow arrays) and returns one, so it is called once a batch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millstream.errors import ScriptError
from millstream.model import types
from millstream.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, DataType, Family

Returns = Callable[[Sequence[DataType]], DataType]
ANY = "any"
SAME = "same"


@dataclass(frozen=True, slots=True)
class Function:
    """What a function takes and gives. `takes` names a family, 'any', 'same' or an exact type per argument."""

    name: str
    takes: tuple[Family | DataType | str, ...]
    returns: Returns
    optional: int = 0
    variadic: bool = False
    call: Callable[..., object] | None = None

    def result(self, args: Sequence[DataType]) -> DataType:
        """The type of the result; refuses arguments the function does not take."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        if len(args) < least or (len(args) > most and not self.variadic):
            raise self._refusal(f"{self.name} got {_count(len(args))}")
        for position, arg in enumerate(args):
            wanted = self.takes[min(position, most - 1)]
            if not _accepts(wanted, arg, args):
                raise self._refusal(f"{self.name} got {arg} as argument {position + 1}")
        return self.returns(args)

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
    if wanted == SAME:
        return all(types.common(arg, other) is not None for other in args)
    if isinstance(wanted, DataType):
        return types.common(arg, wanted) == wanted
    return arg.family == wanted


def _always(kind: DataType) -> Returns:
    return lambda _: kind


def _first(args: Sequence[DataType]) -> DataType:
    return args[0]


def _widest(args: Sequence[DataType]) -> DataType:
    result = args[0]
    for arg in args[1:]:
        result = types.common(result, arg) or result
    return result


def _rounded(args: Sequence[DataType]) -> DataType:
    return BIGINT if args[0].is_float else args[0]


_N, _S, _T = Family.NUMBER, Family.STRING, Family.TIME


def _builtins() -> dict[str, Function]:
    table = [
        Function("abs", (_N,), _first),
        Function("sign", (_N,), _first),
        Function("round", (_N, _N), _first, optional=1),
        Function("floor", (_N,), _rounded),
        Function("ceil", (_N,), _rounded),
        Function("power", (_N, _N), _always(DOUBLE)),
        Function("greatest", (SAME, SAME), _widest, variadic=True),
        Function("least", (SAME, SAME), _widest, variadic=True),
        Function("if", (Family.BOOLEAN, ANY, ANY), lambda args: _widest(args[1:])),
        Function("coalesce", (SAME,), _widest, variadic=True),
        Function("nullif", (SAME, SAME), _first),
        Function("length", (_S,), _always(INT)),
        Function("upper", (_S,), _always(STRING)),
        Function("lower", (_S,), _always(STRING)),
        Function("trim", (_S,), _always(STRING)),
        Function("ltrim", (_S,), _always(STRING)),
        Function("rtrim", (_S,), _always(STRING)),
        Function("substring", (_S, _N, _N), _always(STRING), optional=1),
        Function("replace", (_S, _S, _S), _always(STRING)),
        Function("concat", (_S,), _always(STRING), variadic=True),
        Function("startswith", (_S, _S), _always(BOOLEAN)),
        Function("endswith", (_S, _S), _always(BOOLEAN)),
        Function("contains", (_S, _S), _always(BOOLEAN)),
    ]
    table += [Function(name, (_N,), _always(DOUBLE)) for name in ("sqrt", "exp", "ln", "log10", "sin", "cos", "tan")]
    table += [Function(name, (_T,), _always(INT)) for name in ("year", "month", "day", "hour", "minute", "second")]
    return {function.name: function for function in table}


BUILTINS: Mapping[str, Function] = _builtins()
# Words that the grammar reads as something else than a function's name.
_GRAMMAR = ("case", "cast", "try_cast", "extract", "interval", "in", "not", "and", "or", "select")


def function(returns: str, *takes: str, name: str | None = None) -> Callable[[Callable[..., object]], Function]:
    """Registers a Python function for use in scripts: `@function("BOOLEAN", "DOUBLE", "DOUBLE")`."""
    result = types.simple(returns)
    arguments = tuple(types.simple(kind) for kind in takes)

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

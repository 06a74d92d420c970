"""Makes the name of a lock from the arguments of a call, by a template or a callable.

No two argument lists share a name unless their values are equal as text: in values, `%` and the four separators are
escaped, and two fields must have a separator between them. A value whose text differs from process to process (the
`repr` of an object), or is the same for all (None), would exclude nobody or everybody, and is refused.
"""

import inspect
import re
import string
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast

from holdtight.base.names import PLAIN_NAME, check_name
from holdtight.clients.decorating import is_async

__all__ = ["Naming"]

SEPARATORS = ":/|#"
_ESCAPES = str.maketrans({char: f"%{ord(char):02X}" for char in "%" + SEPARATORS})

_FIELD = re.compile(r"([^.\[\]]*)((?:\.[^.\[\]]+|\[[^\[\]]+\])*)")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([^\[\]]+)\]")

Args = tuple[Any, ...]
Kwargs = Mapping[str, Any]
Pick = Callable[[Args, Kwargs], Any]


class Naming:
    """Makes a name from the arguments of a call of one function. `fixed` is the name if it has no fields, else None.

    `argument` is what the template is called in messages: name, or per. Without a function there are no arguments.
    """

    fixed: str | None = None

    def __init__(self, given: object, function: Any = None, argument: str = "name") -> None:
        self._argument = argument
        self._parts: list[str | _Field] = []
        self._callable: Callable[..., object] | None = None
        self._signature = None if function is None else inspect.signature(function)
        if isinstance(given, str):
            self._template = given
            self._read(given)
        elif callable(given):
            if is_async(given):
                raise TypeError(f"{argument}={given!r} is async: a callable that makes a name must return it at once")
            if function is None:
                raise TypeError(f"{argument} must be a str here: there is no call whose arguments a callable could get")
            self._callable = given
        else:
            raise TypeError(f"{argument} must be a str or a callable, not {type(given).__name__}")

    def of(self, args: Args, kwargs: Kwargs) -> str:
        """The name for a call with these arguments. Raises TypeError or ValueError for a value that is not allowed."""
        if self.fixed is not None:
            return self.fixed
        if self._callable is not None:
            made = self._callable(*args, **kwargs)
            check_name(made, f"{self._argument} (what {self._callable!r} returned)")
            return cast(str, made)
        text = ""
        for part in self._parts:
            text += part if isinstance(part, str) else part.text(args, kwargs, self._missing)
        if len(text) > PLAIN_NAME or not text.isprintable():
            check_name(text, self._argument)
        return text

    def _read(self, template: str) -> None:
        try:
            found = list(string.Formatter().parse(template))
        except ValueError as error:
            raise self._wrong(f"is not a template: {error}") from None
        between: str | None = None
        """The text since the last field; None before the first."""
        for literal, field, spec, conversion in found:
            if literal:
                self._parts.append(literal)
                between = between + literal if between is not None else None
            if field is None:
                continue
            shown = "{" + field + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "") + "}"
            if conversion or spec:
                raise self._wrong(
                    f"has {shown}: a field takes no !conversion and no :format. Make the text in a callable"
                )
            if between is not None and not any(char in SEPARATORS for char in between):
                raise self._wrong(
                    f"needs one of {' '.join(SEPARATORS)} before {shown}: otherwise two argument lists could share a "
                    "name, as (1, 23) and (12, 3) do"
                )
            self._parts.append(self._field(field, shown))
            between = ""
        if between is None:
            self.fixed = "".join(cast(list[str], self._parts))
            check_name(self.fixed, self._argument)

    def _field(self, field: str, shown: str) -> "_Field":
        try:
            root, steps = _split(field)
        except ValueError:
            raise self._wrong(f"has {shown}, which is no parameter with attributes and items") from None
        if not root or root.isdigit():
            raise self._wrong(f"has the positional field {shown}: name the parameter instead")
        if self._signature is None:
            raise self._wrong(f"has the field {shown}, but there is no call whose arguments could fill it")
        if root not in self._signature.parameters:
            known = ", ".join(self._signature.parameters) or "none"
            raise self._wrong(f"has the field {shown}, and the function has no such parameter (it has: {known})")
        return _Field(_picker(self._signature, root), steps, f"{self._argument}: {shown}")

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"{self._argument}={self._template!r} {why}")

    def _missing(self, args: Args, kwargs: Kwargs) -> TypeError:
        """The error that the function itself would raise."""
        assert self._signature is not None
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            return error
        raise AssertionError("the argument is there")


class _Field:
    __slots__ = ("_pick", "_shown", "_steps")

    def __init__(self, pick: Pick, steps: list[tuple[bool, str | int]], shown: str) -> None:
        self._pick = pick
        self._steps = steps
        """What to take of the parameter: (True, attribute) or (False, key or index)."""
        self._shown = shown

    def text(self, args: Args, kwargs: Kwargs, missing: Callable[[Args, Kwargs], TypeError]) -> str:
        try:
            value = self._pick(args, kwargs)
        except LookupError:
            raise missing(args, kwargs) from None
        try:
            for is_attribute, step in self._steps:
                value = getattr(value, cast(str, step)) if is_attribute else value[step]
        except (AttributeError, LookupError, TypeError) as error:
            error.add_note(f"while making the {self._shown}")
            raise
        if value.__class__ is str and value.isalnum():
            return value
        if value.__class__ is int:
            return str(value)
        return text_of(value, self._shown).translate(_ESCAPES)


def text_of(value: Any, shown: str) -> str:
    """The text of a value, the same in every process, and the same for equal values. `shown` is for the error."""
    from datetime import UTC, date, datetime
    from decimal import Decimal
    from uuid import UUID

    if isinstance(value, Enum):
        return text_of(value.value, shown)
    if value is None:
        raise ValueError(f"{shown} is None: all calls without a value would share one name")
    if isinstance(value, str):
        if not value:
            raise ValueError(f"{shown} is empty: all calls without a value would share one name")
        return str.__str__(value)
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return _decimal_text(value, shown)
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(
        f"{shown} is of type {type(value).__name__}, whose text may differ from process to process, and then excludes "
        "nobody. Use a str, int, UUID, Decimal, date, datetime or Enum: name one of its attributes, or a callable"
    )


def _decimal_text(value: Any, shown: str) -> str:
    """Decimal("1.0") and Decimal("1.00") are equal, so they have one text."""
    if not value.is_finite():
        raise ValueError(f"{shown} is {value}: not a number that a name could have")
    sign, digits, exponent = value.as_tuple()
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if not any(digits):
        return "0"
    plain = type(value)((sign, digits, exponent))
    return format(plain, "f") if abs(exponent) <= 30 else str(plain)


def _split(field: str) -> tuple[str, list[tuple[bool, str | int]]]:
    """The parameter of a field, and the attributes and items to take of it: as `str.format` reads it."""
    whole = _FIELD.fullmatch(field)
    if whole is None:
        raise ValueError
    steps: list[tuple[bool, str | int]] = []
    for attribute, item in _STEP.findall(whole[2]):
        steps.append((True, attribute) if attribute else (False, int(item) if item.isdecimal() else item))
    return whole[1], steps


def _picker(signature: inspect.Signature, root: str) -> Pick:
    """Takes one parameter's value from the arguments of a call, without binding all of them. A LookupError if it is
    missing."""
    kinds = inspect.Parameter
    parameter = signature.parameters[root]
    positional = [
        each.name
        for each in signature.parameters.values()
        if each.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    default: Any = parameter.default

    def by_keyword(args: Args, kwargs: Kwargs) -> Any:
        if root in kwargs:
            return kwargs[root]
        if default is kinds.empty:
            raise LookupError(root)
        return default

    if parameter.kind is kinds.VAR_POSITIONAL:
        return lambda args, kwargs: args[len(positional) :]
    if parameter.kind is kinds.VAR_KEYWORD:
        named = {each.name for each in signature.parameters.values() if each.kind is not kinds.POSITIONAL_ONLY}
        return lambda args, kwargs: {word: value for word, value in kwargs.items() if word not in named}
    if parameter.kind is kinds.KEYWORD_ONLY:
        return by_keyword
    at = positional.index(root)
    if parameter.kind is kinds.POSITIONAL_ONLY:

        def by_place(args: Args, kwargs: Kwargs) -> Any:
            if default is kinds.empty:
                return args[at]
            return args[at] if at < len(args) else default

        return by_place
    return lambda args, kwargs: args[at] if at < len(args) else by_keyword(args, kwargs)

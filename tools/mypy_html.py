"""A plugin of mypy: markup is made of literals, numbers and other markup, never of plain text.

`Html` of `evalwright.reports.formats.html` marks text that is HTML. Without this plugin its
constructor would take any `str`; with it, text from outside must pass through an escaper or a
template first, or the type checker refuses it.
"""

from collections.abc import Callable

from mypy.errorcodes import ErrorCode
from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
    Expression,
    ListExpr,
    MemberExpr,
    OpExpr,
    StrExpr,
    TupleExpr,
)
from mypy.plugin import FunctionContext, Plugin
from mypy.types import (
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    Type,
    UnionType,
    get_proper_type,
)

HTML = "evalwright.reports.formats.html.Html"
SAFE = {HTML, "builtins.int", "builtins.float", "builtins.bool"}
UNESCAPED = ErrorCode("unescaped", "Plain text in markup", "Escaping")
MESSAGE = "Html of plain text; escape it first, with text_html or quoted_html"


class HtmlPlugin(Plugin):
    """Looks at every call of `Html`."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The check, where `Html` is called."""
        return _check if fullname == HTML else None


def plugin(_version: str) -> type[Plugin]:
    """What mypy asks for."""
    return HtmlPlugin


def _check(context: FunctionContext) -> Type:
    if not all(_is_markup(each, context) for given in context.args for each in given):
        context.api.fail(MESSAGE, context.context, code=UNESCAPED)
    return context.default_return_type


def _is_markup(expression: Expression, context: FunctionContext) -> bool:
    """Whether an expression is a literal, a number, markup, or put together of such."""
    match expression:
        case StrExpr():
            return True
        case OpExpr(op="+"):
            parts = [expression.left, expression.right]
        case ConditionalExpr():
            parts = [expression.if_expr, expression.else_expr]
        case ListExpr() | TupleExpr():
            parts = expression.items
        case CallExpr(callee=MemberExpr(expr=StrExpr(), name="join" | "format")):
            # An f-string is a list of literals and of calls of `format`, joined.
            parts = expression.args
        case _:
            return _is_safe(get_proper_type(context.api.get_expression_type(expression)))
    return all(_is_markup(part, context) for part in parts)


def _is_safe(found: ProperType) -> bool:
    """Whether values of a type are markup, numbers or literals, or a list of markup."""
    if isinstance(found, UnionType):
        return all(_is_safe(get_proper_type(each)) for each in found.items)
    if isinstance(found, LiteralType | NoneType):
        return True
    if not isinstance(found, Instance):
        return False
    if found.type.fullname in SAFE or found.last_known_value is not None:
        return True
    item = [get_proper_type(each) for each in found.args]
    return [each.type.fullname for each in item if isinstance(each, Instance)] == [HTML]

"""CQL as a dialect of sqlglot: the tokenizer and the parser, with the clauses that SQL does not have.

What is ours: everything that can stand in ``FROM`` (windows in brackets, the word ``stream``, ``MODEL``), the suffix
``WINDOW``, and ``Istream``/``Dstream``/``Rstream``/``Wstream``. What is sqlglot's: expressions, set operators and the
clauses of ``SELECT``. Functions are kept by name (``Anonymous``) instead of sqlglot's typed nodes, because typed nodes
forget how the function was written and reorder arguments for other dialects; ``expr.functions`` decides what a name
means.

Every node that a message may want to underline carries ``start`` and ``end`` offsets in its ``meta``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from eddyline.core.errors import did_you_mean
from eddyline.cql.window_syntax import STREAM_OPERATORS, PlacedParseError, WindowParser

QUERY_STARTS = (TokenType.SELECT, TokenType.WITH)
REFUSED_AFTER_CALL = {
    "WITHIN": "WITHIN GROUP is not supported.",
}


NULLS_IGNORED = "IGNORE NULLS is not supported: keep the rows with a value, WHERE x IS NOT NULL."


class Source(exp.Expression):
    """An item of FROM: a name, a call such as ``late(q)``, a query, or another Source in parentheses with its joins."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "alias": False,
        "window": False,
        "models": False,
        "joins": False,
    }


class StreamList(exp.Expression):
    """``Istream(a, b AS c)`` in place of a select list."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "expressions": True, "distinct": False}


class StreamQuery(exp.Expression):
    """``Istream(SELECT …)``; WITH may stand before it or inside it."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": True, "with_": False}


class CqlTokenizer(Tokenizer):
    QUOTES: ClassVar[list[Any]] = ["'", ("“", "”"), ("‘", "’")]
    IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
    # What is not a single token is looked up as part of a word, and “ would begin one.
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        **Tokenizer.SINGLE_TOKENS,
        **dict.fromkeys("“”‘’", TokenType.QUOTE),
    }
    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
    COMMANDS: ClassVar[set[TokenType]] = set()  # no statement of ours swallows the rest of the text
    # A hint would be read as a comment with a meaning; in CQL /*+ is a comment like any other.
    HINT_START: ClassVar[str] = "/*+never+"
    KEYWORDS: ClassVar[dict[str, TokenType]] = {k: t for k, t in Tokenizer.KEYWORDS.items() if k != "/*+"}


class CqlParser(WindowParser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": lambda self: self._parse_case(),
        "IF": lambda self: self._parse_if(),
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{k: Parser.FUNCTION_PARSERS[k] for k in ("EXTRACT", "POSITION", "SUBSTRING", "TRIM")},
        "CAST": lambda self: self._parse_cast_call(exp.Cast),
        "TRY_CAST": lambda self: self._parse_cast_call(exp.TryCast),
        **{name: lambda self: self._parse_stream_operator() for name in STREAM_OPERATORS},
    }

    # Words that open a clause we refuse are no aliases, so that the refusal names them.
    SOURCE_ALIAS_TOKENS: ClassVar[set[TokenType]] = Parser.TABLE_ALIAS_TOKENS - {
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.FETCH,
    }

    def parse_tokens(self, tokens: list[Token], text: str) -> exp.Expression:
        """The tree of one query; tokens left over are an error. (sqlglot's own loop also reads BEGIN, ELSE and END.)"""
        self.reset()
        self.sql = text
        self._chunks = [tokens]
        self._advance_chunk()
        tree = self._parse_whole_query()
        if self._index < self._tokens_size:
            self.raise_error("Invalid expression / Unexpected token")
        assert isinstance(tree, exp.Expression)
        return tree

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        # sqlglot recognizes EXISTS by the SELECT behind it; the query may stand in parentheses of its own.
        if first.token_type == TokenType.EXISTS and self._takes_query(self._index):
            self._advance(2)
            node: Any = exp.Exists(this=self._parse_whole_query())
            self._match_r_paren()
            return self._placed(node, first)
        node = super()._parse_function_call(*args, **kwargs)
        return self._placed(node, first) if isinstance(node, exp.Expression) else node

    def _parse_expression(self) -> Any:
        first = self._curr
        node = super()._parse_expression()
        if isinstance(node, exp.Expression) and first:
            # The text of a select item is its output name where it has no alias.
            node.meta["item"] = (first.start, self._prev.end)
        return node

    def _parse_csv(self, parse_method: Any, sep: Any = TokenType.COMMA) -> Any:
        items = super()._parse_csv(parse_method, sep)
        if items and self._prev.token_type == sep:
            self.raise_error("something is missing after ','.")
        return items

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        text = self._curr.text.upper() if self._curr else ""
        follows = self._next.token_type in (TokenType.L_PAREN, TokenType.GROUP_BY) or self._next.text.upper() == "GROUP"
        if text in REFUSED_AFTER_CALL and follows:
            self.raise_error(REFUSED_AFTER_CALL[text])
        if self._parse_nulls(this):
            return self._parse_window(this, alias)
        if text == "OVER" and self._next.token_type in self.ID_VAR_TOKENS:
            name = self._next.text
            self.raise_error(
                f"no WINDOW of this query is called {name!r}: write WINDOW {name} AS (PARTITION BY … ORDER BY …) behind"
                " it, or the parentheses behind OVER.",
                self._next,
            )
        if text in ("OVER", "FILTER") and follows and isinstance(this, exp.Expression):
            first = this.meta.get("start", self._prev.start)
            node: Any = super()._parse_window(this, alias)
            node.meta["start"], node.meta["end"] = first, self._prev.end
            return node
        return this

    def _parse_nulls(self, this: Any) -> bool:
        """``RESPECT NULLS``, behind a call or its argument, is what is done anyway; ``IGNORE NULLS`` is refused."""
        inside = this.expressions[:1] if isinstance(this, exp.Anonymous) else []
        if inside and isinstance(inside[0], exp.RespectNulls):
            this.set("expressions", [inside[0].this, *this.expressions[1:]])
        elif inside and isinstance(inside[0], exp.IgnoreNulls):
            self.raise_error(NULLS_IGNORED, self._prev)
        elif self._curr and self._curr.text.upper() in ("IGNORE", "RESPECT") and self._next.text.upper() == "NULLS":
            if self._curr.text.upper() == "IGNORE":
                self.raise_error(NULLS_IGNORED)
            self._advance(2)
        else:
            return False
        return True

    def _parse_cast_call(self, node: type[exp.Cast]) -> exp.Cast:
        """``CAST(x AS type)``; the type is kept as written, because ``expr.types`` is the one to know our types."""
        value = self._parse_disjunction()
        if not self._match(TokenType.ALIAS):
            self.raise_error("expected AS and a type in CAST.")
        first, depth = self._curr, 0
        while self._curr and (depth or self._curr.token_type != TokenType.R_PAREN):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(self._curr.token_type, 0)
            self._advance()
        if not self._curr:
            self.raise_error("Expecting )")
        if self._curr is first:
            self.raise_error("expected a type after AS.")
        written = self._placed(exp.Var(this=self._find_sql(first, self._prev)), first)
        return node(this=value, to=written)

    # Stream operators -----------------------------------------------------------------------------------------

    def _query_follows(self) -> bool:
        """Whether the next tokens, behind any number of parentheses, open a query."""
        at = self._behind_parentheses(self._index)
        return self._is_at(at, *QUERY_STARTS) or (
            self._is_stream_operator(at) and self._is_at(at + 1, TokenType.L_PAREN)
        )

    def _stream_query_follows(self) -> bool:
        """Whether the next tokens, behind any number of parentheses, are a stream operator around a whole query."""
        at = self._behind_parentheses(self._index)
        return self._is_stream_operator(at) and self._takes_query(at)

    def _takes_query(self, at: int) -> bool:
        """Whether what is called here has a query as its argument, behind any number of parentheses."""
        inner = self._behind_parentheses(at + 1)
        return inner > at + 1 and (self._is_at(inner, *QUERY_STARTS) or self._is_stream_operator(inner))

    def _behind_parentheses(self, at: int) -> int:
        while self._is_at(at, TokenType.L_PAREN):
            at += 1
        return at

    def _is_at(self, at: int, *types: TokenType) -> bool:
        return at < len(self._tokens) and self._tokens[at].token_type in types

    def _is_stream_operator(self, at: int) -> bool:
        return at < len(self._tokens) and self._tokens[at].text.upper() in STREAM_OPERATORS

    def _parse_stream_operator(self) -> exp.Expression:
        kind = self._tokens[self._index - 2].text.lower()
        if self._query_follows():
            node: exp.Expression = StreamQuery(kind=kind, this=self._parse_whole_query())
        else:
            distinct = self._match(TokenType.DISTINCT)
            node = StreamList(kind=kind, distinct=distinct, expressions=self._parse_expressions())
        if not self._match(TokenType.R_PAREN, advance=False):
            self.raise_error("Expecting )")
        return node

    def _parse_select(self, *args: Any, **kwargs: Any) -> Any:
        """sqlglot recognizes a query by the word SELECT; here a stream operator may begin it, in parentheses too."""
        if not self._stream_query_follows():
            return super()._parse_select(*args, **kwargs)
        first = self._curr
        if self._match(TokenType.L_PAREN):
            query: Any = exp.Subquery(this=self._parse_whole_query())
            self._match_r_paren()
            query = self._placed(query, first)
        else:
            query = self._parse_stream_query()
        return self._parse_set_operations(query) if kwargs.get("parse_set_operation", True) else query

    def _parse_statement(self) -> Any:
        """What stands behind WITH, or inside it."""
        return self._parse_whole_query() if self._stream_query_follows() else super()._parse_statement()

    def _parse_stream_query(self) -> Any:
        first = self._curr
        self._advance(2)
        node = self._parse_stream_operator()
        self._match_r_paren()
        return self._placed(node, first)

    def _parse_whole_query(self) -> Any:
        """A query with its set operators, in parentheses or not, or a stream operator around one."""
        if self._curr.text.upper() in STREAM_OPERATORS and self._next.token_type == TokenType.L_PAREN:
            return self._parse_set_operations(self._parse_stream_query())
        query = self._parse_select(nested=True, parse_subquery_alias=False)
        if query is None:
            found = f"found '{self._curr.text}'" if self._curr else "the text ends here"
            hint = did_you_mean(self._curr.text, ["SELECT"]) if self._curr else ""
            self.raise_error(f"a query starts with SELECT, but {found}.{hint}")
        return self._parse_query_modifiers(self._parse_set_operations(query))

    def _parse_with(self, skip_with_token: bool = False) -> Any:
        # Here and not in the binder: sqlglot puts the clauses of nested queries together, where names may repeat.
        clause: Any = super()._parse_with(skip_with_token)
        seen: set[str] = set()
        for cte in clause.expressions if clause is not None else ():
            name = cte.args["alias"].this
            if name.name.lower() in seen:
                message = f"WITH defines {name.name!r} twice: give one of them another name."
                raise PlacedParseError(message, name.meta["start"], name.meta["end"] + 1)
            seen.add(name.name.lower())
        return clause

    # FROM -----------------------------------------------------------------------------------------------------

    def _parse_join(self, skip_join_token: bool = False, parse_bracket: bool = False, alias_tokens: Any = None) -> Any:
        # sqlglot tries a table after a comma and forgets the error if there is none; we want the error.
        if self._match(TokenType.COMMA):
            join: Any = self.expression(exp.Join(this=self._parse_table(alias_tokens=alias_tokens)))
            join.meta["comma"] = True
            return join
        first = self._curr
        # sqlglot reads ASOF LEFT JOIN; LEFT ASOF JOIN is read as that.
        turned = bool(first and first.token_type == TokenType.LEFT and self._next.token_type == TokenType.ASOF)
        if turned:
            self._advance()
        join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        if join is None:
            return None
        if turned:
            join.set("side", "LEFT")
        if join.args.get("method") == "ASOF" and self._match_text_seq("WITHIN"):
            join.meta["within"] = self._parse_duration()
        return self._placed(join, first)

    def _parse_table(self, *args: Any, joins: bool = False, **kwargs: Any) -> Any:
        source = self._parse_source()
        if joins:
            for join in self._parse_joins():
                source.append("joins", join)
        return source

    def _parse_source(self) -> Source:
        first = self._curr
        if self._match(TokenType.L_PAREN):
            this = self._parse_parenthesised_source()
        elif first and first.text.upper() in STREAM_OPERATORS and self._next.token_type == TokenType.L_PAREN:
            this = self._parse_whole_query()
        else:
            this = self._parse_source_name()
        source = Source(this=this)
        self._parse_source_window(source)
        if not self._parse_model(source):
            self._parse_source_alias(source)
        self._parse_source_window(source)
        self._parse_model(source)
        node: Source = self._placed(source, first)
        return node

    def _parse_parenthesised_source(self) -> Any:
        """After ``(``: a query, or a source with joins; ``((SELECT …) UNION …)`` starts like the second."""
        if self._query_follows() and self._curr.token_type != TokenType.L_PAREN:
            this = self._parse_whole_query()
        else:
            index = self._index
            source = self._parse_source()
            if self._match_set(self.SET_OPERATIONS, advance=False):
                self._retreat(index)
                this = self._parse_whole_query()
            else:
                for join in self._parse_joins():
                    source.append("joins", join)
                this = source
        if not self._match(TokenType.R_PAREN):
            self.raise_error("Expecting )")
        return this

    def _parse_source_name(self) -> Any:
        if (
            self._curr
            and self._curr.text.upper() == "STREAM"
            and self._next.token_type not in (TokenType.L_BRACKET, TokenType.COMMA, TokenType.ALIAS)
            and self._next.token_type in self.ID_VAR_TOKENS | {TokenType.IDENTIFIER}
        ):
            self._advance()
        first = self._curr
        if first and self._next.token_type == TokenType.L_PAREN and first.token_type in self.ID_VAR_TOKENS:
            name: Any = self._parse_id_var(any_token=False)
            self._match_l_paren()
            arguments = self._parse_csv(self._parse_id_var)
            self._match_r_paren()
            return self._placed(exp.Anonymous(this=name.name, expressions=arguments), first)
        name = self._parse_id_var(any_token=False)
        if name is None:
            found = f"found '{first.text}'" if first else "the text ends here"
            self.raise_error(f"expected the name of a stream or relation, or a query in parentheses, but {found}.")
        return name

    def _parse_source_alias(self, source: Source) -> None:
        index = self._index
        if self._match(TokenType.ALIAS):
            alias = self._parse_id_var(any_token=True)
            if alias is None:
                self.raise_error("expected a name after AS.")
        elif self._match_set(self.SOURCE_ALIAS_TOKENS, advance=False):
            alias = self._parse_id_var(any_token=False, tokens=self.SOURCE_ALIAS_TOKENS)
        else:
            alias = None
        if alias is None:
            self._retreat(index)
        else:
            source.set("alias", alias)

    def _parse_model(self, source: Source) -> bool:
        """``MODEL A.x = A.x + A.v * t`` (Pulse); the equation that follows distinguishes it from an alias."""
        if not (self._curr and self._curr.text.upper() == "MODEL"):
            return False
        rest = [t.token_type for t in self._tokens[self._index + 2 : self._index + 5]]
        if self._next.token_type not in self.ID_VAR_TOKENS or not ({TokenType.DOT, TokenType.EQ} & set(rest)):
            return False
        first = self._curr
        self._advance()
        at = self._index
        model: Any = self._parse_disjunction()
        model.meta["start"], model.meta["end"] = first.start, self._prev.end
        model.meta["tokens"] = self._tokens[at : self._index]  # ^ binds otherwise in a model
        if source.args.get("models"):
            self.raise_error("a stream has one MODEL, with commas between its values.", first)
        source.append("models", model)
        while self._match(TokenType.COMMA):
            at = self._index
            more = self._parse_disjunction() if self._models_more() else None
            if more is None:
                self._retreat(at - 1)
                break
            more.meta["start"], more.meta["end"] = self._tokens[at].start, self._prev.end
            more.meta["tokens"] = self._tokens[at : self._index]
            source.append("models", more)
        return True

    def _models_more(self) -> bool:
        """Whether an equation follows a comma: ``S.y = …`` or ``y = …``, and no other source."""
        following = [t.token_type for t in self._tokens[self._index : self._index + 4]]
        return following[1:2] == [TokenType.EQ] or following[1:4:2] == [TokenType.DOT, TokenType.EQ]


class Cql(Dialect):
    """The dialect that ``sqlglot`` has under the name ``cql``."""

    INDEX_OFFSET = 0
    STRICT_STRING_CONCAT = True
    Tokenizer = CqlTokenizer
    Parser = CqlParser

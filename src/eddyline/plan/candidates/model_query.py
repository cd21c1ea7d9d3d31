"""Queries on models: one operator that solves equation systems over the segments that hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from eddyline.core.time import processor_clock
from eddyline.plan.candidates import MODEL, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import ModelQuery, StreamScan

if TYPE_CHECKING:
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class EquationSystem(Candidate):
    name = "equation-system"
    subject: ClassVar[str] = MODEL

    def check(self, options: Mapping[str, Any]) -> None:
        if "models" in options:  # queries on tuples do without the models
            from eddyline.models.tuples_or_models import choice_option

            choice_option(options)

    def suits(self, node: ModelQuery, planning: Planning) -> str | Refused:
        if node.predict:
            return Refused("its results are final, and the query has PREDICT")
        if node.program.bound is not None:
            return "samples are fitted within bounds, and their segments are solved for time"
        return "segments of models are solved for time"

    def cost(self, node: ModelQuery, planning: Planning) -> float:
        return 1.0

    def build(self, node: ModelQuery, builder: Builder, need: Deletions) -> Output:
        from eddyline.models.describe import format_fits, format_program
        from eddyline.models.tuples_or_models import choice_option
        from eddyline.operators.model_query import ModelOperator
        from eddyline.plan.graph import Output

        scans = [i for i in node.inputs if isinstance(i, StreamScan)]
        below = [builder.stream(s, ordered=True) for s in scans]
        operator = ModelOperator(
            builder.name("model-query"), node.schema, node.program, node.models, [s.schema for s in scans],
            [s.alias for s in scans], node.kind, node.horizon, builder.context, choice_option(builder.planning.options),
            processor_clock(builder.clock),
        )  # fmt: skip
        steps = [format_fits(node.models, [s.alias for s in scans]), format_program(node.program)]
        out = builder.add(operator, tuple(b.node for b in below), note=" → ".join(s for s in steps if s))
        return Output(out, node.schema, append_only=True)


@candidate
class Prediction(Candidate):
    name = "prediction"
    subject: ClassVar[str] = MODEL

    def suits(self, node: ModelQuery, planning: Planning) -> str | Refused:
        if not node.predict:
            return Refused("the query has no PREDICT")
        return "models are solved for instants to come, whenever a segment begins"

    def cost(self, node: ModelQuery, planning: Planning) -> float:
        return 1.0

    def build(self, node: ModelQuery, builder: Builder, need: Deletions) -> Output:
        from eddyline.models.describe import format_fits, format_program
        from eddyline.operators.predictive_query import PredictiveOperator
        from eddyline.plan.graph import Output

        scans = [i for i in node.inputs if isinstance(i, StreamScan)]
        below = [builder.stream(s, ordered=True) for s in scans]
        operator = PredictiveOperator(
            builder.name("model-query"), node.schema, node.program, node.models, [s.schema for s in scans],
            [s.alias for s in scans], node.kind, node.horizon, builder.context,
        )  # fmt: skip
        steps = [format_fits(node.models, [s.alias for s in scans]), "predict", format_program(node.program)]
        note = " → ".join(s for s in steps if s)
        return Output(builder.add(operator, tuple(b.node for b in below), note=note), node.schema, append_only=False)

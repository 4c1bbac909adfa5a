"""The decision: from facts to one kind, with the rule that decided, reasons, and what would change it (R11).

The rules are a table (`decision_rules`), what they ask of the facts is `decision_words`. A decision proposes; people approve.
"""

from __future__ import annotations

from dataclasses import dataclass

from playbooks.evidence.entries import DecisionProposed
from playbooks.guiding import decision_words as w
from playbooks.guiding.decision_facts import DecisionFacts, facts_of, parse_facts, with_usual
from playbooks.guiding.decision_routes import Rule
from playbooks.guiding.decision_rules import RULES
from playbooks.guiding.decision_terms import CARRY_OUT, COSTS
from playbooks.vocabulary import DecisionKind

__all__ = ["Decision", "DecisionFacts", "decide", "facts_of", "parse_facts", "with_usual"]


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision as proposed.

    evidence: entries of the record that the reasons stand on.
    carry_out, costs: what comes with this kind whatever rule led to it.
    missing: what a `hold` lacks, cheapest first; `missing_items` are the checklist items that close it, in the same order.
    """

    kind: DecisionKind
    rule: str
    headline: str
    reasons: tuple[str, ...]
    evidence: tuple[int, ...]
    would_change: tuple[str, ...]
    not_concluded: tuple[str, ...]
    carry_out: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    missing_items: tuple[str, ...] = ()

    def proposal(self, note: str = "") -> DecisionProposed:
        """Return the decision as the ledger's payload."""
        return DecisionProposed(
            kind=self.kind,
            rule=self.rule,
            headline=self.headline,
            reasons=list(self.reasons),
            evidence=list(self.evidence),
            would_change=list(self.would_change),
            not_concluded=list(self.not_concluded),
            carry_out=list(self.carry_out),
            costs=list(self.costs),
            missing=list(self.missing),
            note=note,
        )


def decide(facts: DecisionFacts) -> Decision:
    """Decide by the first rule whose conditions all hold; the last rule always does.

    Rule: docs/rules.md#decision
    """
    rule = next(rule for rule in RULES if all(condition.holds(facts) for condition in rule.when))
    missing = rule.lacks(facts)
    cited = {name for condition in rule.when for name in condition.facts}
    never = (*rule.never, "recorded") if facts.recorded_only else rule.never
    return Decision(
        kind=rule.kind,
        rule=rule.id,
        headline=rule.headline,
        reasons=_reasons(rule, facts),
        evidence=tuple(sorted({seq for name, seq in facts.evidence.items() if name in cited})),
        would_change=rule.would_change,
        not_concluded=tuple(w.NEVER[key] for key in never),
        carry_out=CARRY_OUT[rule.kind],
        costs=COSTS.get(rule.kind, ()),
        missing=tuple(one.text for one in missing),
        missing_items=tuple(one.item for one in missing),
    )


def _reasons(rule: Rule, facts: DecisionFacts) -> tuple[str, ...]:
    reasons = [condition.reason(facts) for condition in rule.when if condition is not w.ALWAYS]
    if facts.one_cause and w.fails(facts):
        reasons.append("the root lines of the two attempts differ and are of one cause; the score stays")
    if w.VERSION_RISK in rule.when and not w.boundary_fresh(facts):
        reasons.append(
            f"the boundary data is {facts.boundary_age_days} days old, more than {facts.boundary_limit_days}:"
            " check it again before this is carried out"
        )
    return tuple(reasons)

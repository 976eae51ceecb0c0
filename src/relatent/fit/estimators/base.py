"""`Estimator`: the base class of all models, which declares `fit`, checks its arguments and keeps its result."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from ... import __version__
from ...arrays import Matrix, Slices, Vector
from ...backend.memory import MemoryEstimate
from ...data.facts import Facts
from ...data.heldout import HeldOut
from ...data.read.read import read_if_table
from ...data.shard import Shard
from ...distributed.workers import ALONE, Workers
from ...errors import InputError, RelatentWarning, VanishedWarning
from ...model.calibration import Calibration
from ...model.entity_attributes import EntityAttributes
from ...model.entity_types import EntityTypes
from ...model.factors import Factors
from ...model.links import Link
from ...model.objective_description import ObjectiveTerm
from ...model.pattern_texts import summary
from ...model.patterns import Patterns
from ...model.provenance import Choice, DataRecord, FitRecord, LearnedRecord, Provenance
from ...model.relation_matrices import RelationMatrices
from ...parameter_checks import check_count, check_penalty
from ...progress import Progress, noted, one_after_another, reporting, silent
from ...random_state import to_seed
from .. import calibration, patterns, settings
from ..automatic_settings import ChosenSettings
from ..checkpoint import Checkpoint, digest, held
from ..loop import Trace

VANISHED_SCORE = 1e-4  # if no score can exceed this, all predictions are the same
NOT_OF_THE_FIT = ("calibrate", "missing", "keep_facts", "patterns")  # they come after it
COUNT_PARAMETERS = ("max_iter", "patience")  # whole numbers of at least 1, where an estimator has them


class FitArguments(NamedTuple):
    """The checked arguments of `Estimator.fit`."""

    shard: Shard
    validation: Facts | HeldOut | None
    progress: Progress
    checkpoint: str | Path | Checkpoint | None


class Trials(NamedTuple):
    """Fits that lack some facts, with patterns if the model has any; these are the patterns of all facts."""

    fits: list[calibration.HeldOutFit]
    patterns: Patterns | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base class of all models, after scikit-learn: the constructor only stores parameters, `fit` learns.

    Parameters of every model
    -------------------------
    calibrate : whether a further fit without a twentieth of the facts (two such fits if they are few) finds out how
        likely unlisted cells are (`relatent.fit.calibration`). False: the model has the probabilities of its loss, or
        scores only
    missing : share of the true facts that are not listed, between 0 and 1; None assumes a tenth
    keep_facts : whether the model and its file hold the facts, so that nobody has to give them again

    Attributes
    ----------
    factors_ : the learned `Factors`
    trace_ : objective, seconds and held-out loss per step
    n_iter_ : number of steps
    seed_ : seed that the fit used: `random_state`, or the number drawn for it
    settings_ : what was chosen of the settings that were not given, and why (RescalLogit, Rescal, RescalALS)
    """

    factors_: Factors = field(init=False)
    trace_: Trace = field(init=False)
    n_iter_: int = field(init=False)
    seed_: int = field(init=False)

    _unsupported: ClassVar[tuple[str, ...]] = ()  # optional arguments of fit that the model does not take

    calibrate: bool = True
    missing: float | None = None
    keep_facts: bool = True

    def fit(
        self,
        facts: Facts,
        validation: Facts | HeldOut | None = None,
        *,
        progress: bool | Progress | None = None,
        checkpoint: str | Path | Checkpoint | None = None,
        workers: Workers | None = None,
    ) -> Self:
        """Learn the model from facts.

        Parameters
        ----------
        facts : the facts, or a data frame that `relatent.read` reads; with several workers, each worker passes its
            part, over one vocabulary
        validation : held-out facts or cells for early stopping; the best iterate is kept
        progress : True for a progress bar, or a callback (done, total, note)
        checkpoint : file to save the state of the fit in, and to resume from if it exists
        workers : the group of processes that fit together, from `Workers.join()`; all end with the same factors
        """
        group = ALONE if workers is None else workers
        given = {"validation": validation, "checkpoint": checkpoint, "workers": workers}
        for name in self._unsupported:
            if given[name] is not None:
                raise InputError(f"{type(self).__name__}.fit does not support {name}; leave it out")
        self._check_types()
        facts = _checked_facts(facts, group)
        shard = Shard.of(facts, group)
        chosen = self._with_chosen_settings(shard)
        chosen._check_inputs(facts, group)
        chosen.seed_ = int(group.agree_on_text(str(to_seed(self.get_params(deep=False)["random_state"]))))
        chosen._check_memory(shard)
        label = f"fitting {type(self).__name__}"
        try:
            shown = progress if group.rank == 0 else None
            with held(checkpoint, group), reporting(shown, label, at_most=True) as report:
                arguments = FitArguments(shard, validation, one_after_another(report), checkpoint)
                chosen, trials = chosen._compared(arguments)
                chosen._fit(arguments)
                if chosen.calibrate:
                    chosen._learn_probabilities(arguments, trials)
        finally:
            self.__dict__.update((name, value) for name, value in vars(chosen).items() if name.endswith("_"))
        return self

    def _compared(self, arguments: FitArguments) -> tuple[Self, Trials | None]:
        """This estimator, or a copy with settings under which held-out facts are likelier, and what has shown it."""
        return self, None

    def _learn_probabilities(self, arguments: FitArguments, trials: Trials | None = None) -> None:
        """Weigh patterns and calibrate by facts that further fits lack; what an interrupt leaves has neither."""
        facts = arguments.shard.gathered().facts
        if trials is None:
            fits = self._held_out_fits(facts, arguments)
            trials = self._weighed(fits, facts, self._patterns_without(facts, [fit.heldout for fit in fits]))
        self.factors_ = self._with_probabilities(self.factors_, facts, trials)

    def completed(
        self,
        factors: Factors,
        facts: Facts,
        seed: int,
        *,
        unseen: Facts | None = None,
        progress: bool | Progress | None = None,
    ) -> Factors:
        """A model of these facts, fitted with these settings, with the patterns and probabilities that `fit` gives.

        `unseen`: facts that it was not fitted to, in place of further fits.
        """
        chosen = self._with_chosen_settings(Shard.of(facts))
        chosen.seed_ = seed
        if unseen is not None:
            fits = [calibration.HeldOutFit(factors, unseen)]
            trials = chosen._weighed(fits, facts, chosen._patterns_without(facts, [unseen]), is_listed=False)
            return chosen._with_probabilities(factors, facts, trials, is_listed=False)
        with reporting(progress, "learning probabilities", at_most=True) as report:
            chosen.factors_ = factors
            chosen._learn_probabilities(FitArguments(Shard.of(facts), None, one_after_another(report), None))
        return chosen.factors_

    def calibration_of(
        self, factors: Factors, facts: Facts, seed: int, *, progress: bool | Progress | None = None
    ) -> Calibration:
        """The calibration of a model of these facts, which was fitted with these settings."""
        chosen = self._with_chosen_settings(Shard.of(facts))
        chosen.seed_ = seed
        with reporting(progress, "learning probabilities", at_most=True) as report:
            arguments = FitArguments(Shard.of(facts), None, one_after_another(report), None)
            fits = chosen._held_out_fits(facts, arguments)
        without = None
        if factors.patterns is not None and factors.rank:
            observed = patterns.ObservedPatterns(factors.patterns, patterns.START_PRECISION)
            without = patterns.PatternsWithout(observed, facts, seed)
        found = chosen._calibrated(factors, facts, chosen._weighed(fits, facts, without))
        factors = dataclasses.replace(factors, R=factors.relation_matrices, calibration=found)
        return chosen._with_unobserved(factors, facts).calibration or found

    def _with_probabilities(self, factors: Factors, facts: Facts, trials: Trials, *, is_listed: bool = True) -> Factors:
        """The model with the patterns of some trials, calibrated by them."""
        if trials.patterns is not None:
            learned = dataclasses.replace(factors.about.learned, patterns=summary(trials.patterns, facts.relations))
            about = dataclasses.replace(factors.about, learned=learned)
            factors = dataclasses.replace(factors, R=factors.relation_matrices, patterns=trials.patterns, about=about)
        found = self._calibrated(factors, facts, trials, is_listed=is_listed)
        factors = dataclasses.replace(factors, R=factors.relation_matrices, calibration=found)
        return self._with_unobserved(factors, facts) if is_listed else factors

    def _with_unobserved(self, factors: Factors, facts: Facts) -> Factors:
        """The model with probabilities of unobserved cells, from a fit to which cells like them are unobserved, too.

        Patterns have the weights of the model, and are read from the facts of that fit.
        """
        cells = calibration.like_unobserved(facts, self.seed_)
        truth = facts.contains(cells)
        if factors.calibration is None or not truth.any():
            return factors
        rest = facts.hold_out(cells, masked=True)
        if not len(rest):
            return factors
        twin = self._fitted_twin(FitArguments(Shard.of(rest), None, silent, None))
        is_weighed = factors.patterns is not None and factors.rank > 0
        trial = dataclasses.replace(
            twin,
            R=twin.relation_matrices,
            patterns=factors.patterns if is_weighed else twin.patterns,
            calibration=factors.calibration,
            facts=rest,
        )
        log_odds = trial.candidates.judge(cells).score
        masked = calibration.learn_unobserved(log_odds, cells[:, 1], truth, facts.n_relations)
        learned = dataclasses.replace(factors.calibration, masked=masked)
        return dataclasses.replace(factors, R=factors.relation_matrices, calibration=learned)

    def _calibrated(self, factors: Factors, facts: Facts, trials: Trials, *, is_listed: bool = True) -> Calibration:
        return calibration.learn(
            factors,
            facts,
            trials.fits,
            missing=self.missing,
            is_listed=is_listed,
            in_log_odds=trials.patterns is not None,
            random_state=self.seed_,
        )

    def _log_likelihood(self, facts: Facts, trials: Trials) -> float:
        """Of the held-out facts of some trials."""
        return calibration.log_likelihood(
            trials.fits,
            facts,
            missing=self.missing,
            in_log_odds=trials.patterns is not None,
            random_state=self.seed_,
        )

    def _patterns_without(self, facts: Facts, heldout: Sequence[Facts]) -> patterns.PatternsWithout | None:
        """The patterns of the facts, if the model has any, chosen by those that no trial lacks."""
        return None

    def _weighed(
        self,
        fits: list[calibration.HeldOutFit],
        facts: Facts,
        without: patterns.PatternsWithout | None,
        *,
        is_listed: bool = True,
    ) -> Trials:
        """The fits with patterns of their own, and those of all facts, in scale with the factors."""
        if without is None or not fits:
            return Trials(fits)
        parts = []
        for model, heldout in fits:
            assert isinstance(model, Factors)
            parts.append(patterns.PatternTrial(model, *without[heldout], heldout))
        labelled = calibration.labelled_share(facts, fits, self.missing, is_listed=is_listed)
        found, *of_trials = patterns.weighed(without.observed.patterns, parts, labelled, self.seed_)
        weighed = [
            calibration.HeldOutFit(
                dataclasses.replace(part.factors, R=part.factors.relation_matrices, patterns=own), part.heldout
            )
            for part, own in zip(parts, of_trials, strict=True)
        ]
        return Trials(weighed, found)

    def _held_out_fits(self, facts: Facts, arguments: FitArguments) -> list[calibration.HeldOutFit]:
        """Fits that lack some facts."""
        return [
            self._held_out_fit(heldout, arguments, "learning probabilities")
            for heldout in calibration.heldout_facts(facts, self.seed_)
        ]

    def _held_out_fit(self, heldout: Facts, arguments: FitArguments, note: str) -> calibration.HeldOutFit:
        """A fit that lacks these facts."""
        shard, validation, progress, _ = arguments
        own = shard.facts.subset(~heldout.contains(shard.facts.triples))
        twin = self._fitted_twin(FitArguments(Shard.of(own, shard.workers), validation, noted(progress, note), None))
        return calibration.HeldOutFit(twin, heldout)

    def _fitted_twin(self, arguments: FitArguments) -> Factors:
        """The factors of a fit with these settings to facts that lack some, or to which some cells are unobserved."""
        twin = self._for_heldout_facts()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RelatentWarning)  # the fit to all facts says it
            twin._fit(arguments)
        return twin.factors_

    def _for_heldout_facts(self) -> Self:
        """This estimator for a fit that lacks some facts."""
        twin = copy(self)
        twin.keep_facts = False
        return twin

    def _with_chosen_settings(self, facts: Facts | Shard) -> Self:
        """This estimator, or a copy in which settings that were not given are chosen for these facts."""
        return self

    def _fit(self, arguments: FitArguments) -> None:
        """Learn from checked arguments, and keep the result with `_finish`."""
        raise NotImplementedError

    def estimate_memory(self, facts: Facts) -> MemoryEstimate:
        """Approximate memory of a fit beyond the facts, and size of the model file, in bytes."""
        return MemoryEstimate()

    if not TYPE_CHECKING:  # a type checker would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Say that the model is not fitted when a learned attribute is missing."""
            message = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name.endswith("_") and not name.startswith("_") and "factors_" not in vars(self):
                raise NotFittedError(f"{message}: call fit first")
            raise AttributeError(message)

    def _check_memory(self, shard: Shard) -> None:
        """Raise InputError if the fit needs more memory than is free."""

    def _finish(
        self,
        shard: Shard,
        A: Matrix,
        R: Slices | RelationMatrices,
        b: Vector,
        link: Link,
        trace: Trace,
        learned: LearnedRecord | None = None,
        *,
        loss: ObjectiveTerm,
        penalty: ObjectiveTerm | None = None,
        method: str | None = None,
        patterns: Patterns | None = None,
    ) -> None:
        """Keep the result; `learned` is what the model file says of it for a person to read.

        After Ctrl-C the result so far is kept and KeyboardInterrupt raised, so that loops around the fit stop as well.
        """
        matrices = RelationMatrices.of(R).with_symmetric(sorted(shard.facts.undirected))
        A, P, b = (shard.workers.broadcast(np.ascontiguousarray(part)) for part in (A, matrices.parameters, b))
        R = dataclasses.replace(matrices, parameters=P)
        self.trace_ = trace
        self.n_iter_ = len(trace)
        chosen: ChosenSettings | None = getattr(self, "settings_", None)
        about = Provenance(
            model=type(self).__name__,
            settings=settings.to_json(self.get_params(deep=False) | {"random_state": self.seed_}),
            data=DataRecord(
                facts=shard.n_facts - shard.n_mirrors,
                unobserved=shard.n_unobserved,
                fingerprint=shard.fingerprint,
                base_rates=tuple(shard.base_rates.tolist()),
                self_facts=tuple(shard.self_facts.astype(int).tolist()),
            ),
            fit=FitRecord(
                steps=len(trace),
                converged=trace.converged,
                verdict=trace.verdict,
                objective=trace[-1].objective,
                seconds=trace[-1].seconds,
                objectives=tuple(trace.objective.tolist()),
                method=method,
            ),
            chosen=Choice(settings.to_json(chosen.values), chosen.reason) if chosen and chosen.values else None,
            learned=learned or LearnedRecord(),
        )
        arrays = (A, R.astype(A.dtype), b.astype(A.dtype))
        types = None if shard.facts.types is None else EntityTypes.of(shard, shard.facts.types)
        facts = shard.gathered().facts if self.keep_facts else None
        known: dict[str, Any] = {
            "types": types,
            "facts": facts,
            "attributes": EntityAttributes.of(arrays[0], shard.facts),
            "undirected": shard.facts.undirected,
        }
        names = (shard.entities, shard.relations)
        self.factors_ = Factors(*arrays, *names, link, about, loss=loss, penalty=penalty, patterns=patterns, **known)
        if trace.stopped:
            raise KeyboardInterrupt(trace.verdict)

    def _warn_if_vanished(self, A: Matrix, R: Slices, *, flat: bool = False) -> None:
        """`flat`: no fact has a score of its own, although some factors are not zero."""
        if flat or float(np.abs(A).max()) ** 2 * float(np.abs(R).max()) < VANISHED_SCORE:
            message = f"all factors have shrunk to zero: {VanishedWarning.REMEDY}"
            warnings.warn(message, VanishedWarning, stacklevel=4)

    def _check_types(self) -> None:
        """Raise InputError for a parameter of a type that no choice of settings can deal with."""
        for name, value in self.get_params(deep=False).items():
            got = type(value).__name__
            if name == "init" and not isinstance(value, (str, Factors, type(None))):
                raise InputError(f"init must be a name or Factors, got {got}")
            if name == "relation_weights" and not isinstance(value, (Mapping, type(None))):
                raise InputError(f"relation_weights must be a dict {{relation: weight}}, got {got}")
            if isinstance(value, np.ndarray):
                raise InputError(f"{name} must be one value, got an array of shape {value.shape}")
            if isinstance(value, int) and abs(value) >= 1 << 63:
                raise InputError(f"{name} must be below 2^63, got a number of {len(f'{value:x}')} hexadecimal digits")

    def _check_inputs(self, facts: Facts, workers: Workers) -> None:
        with workers.raise_together():
            self._check_settings(facts)
        if workers.size > 1:
            workers.check_same(str(self._settings()), "the settings of the fit")

    def _check_settings(self, facts: Facts) -> None:
        """Raise InputError for a parameter out of range; subclasses add checks of their own parameters."""
        for name in ("calibrate", "keep_facts"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise InputError(f"{name} must be True or False, got {getattr(self, name)!r}")
        calibration.check_missing(self.missing)
        for name, value in self.get_params(deep=False).items():
            if value is None:
                continue
            if name in COUNT_PARAMETERS:
                check_count(name, value)
            if name.startswith(("l1_", "l2_")) or name == "tol":
                check_penalty(name, value)

    def _settings(self) -> dict[str, Any]:
        """What the factors depend on."""
        given = self.get_params(deep=False).items()
        return {name: _without_address(value) for name, value in sorted(given) if name not in NOT_OF_THE_FIT}

    def _checkpoint(self, arguments: FitArguments) -> Checkpoint | None:
        """The checkpoint of this fit; InputError if it belongs to another fit or cannot be written."""
        shard, validation, _, given = arguments
        shard.workers.check_same(str(given is None), "whether there is a checkpoint")
        if given is None:
            return None
        parts = [__version__, type(self).__name__, self._settings(), shard.fingerprint]
        if shard.facts.attributes is not None:
            parts.append(digest(shard.facts.attributes))
        init = getattr(self, "init", None)
        if isinstance(init, Factors):
            parts.append(digest(init.A, init.relation_matrices.parameters, init.bias))
        if validation is not None:
            parts.append(validation_id(validation))
        chosen = Checkpoint(Path(given)) if isinstance(given, (str, Path)) else given
        checkpoint = dataclasses.replace(chosen, fit_id=" ".join(map(str, parts)), workers=shard.workers)
        checkpoint.check()
        return checkpoint


def _checked_facts(facts: Facts | Any, workers: Workers) -> Facts:
    with workers.raise_together():
        facts = read_if_table(facts)
        if not isinstance(facts, Facts):
            raise InputError(f"fit takes Facts, got {type(facts).__name__}; see relatent.read and Facts.from_arrays")
    if not workers.any(len(facts) > 0):
        raise InputError("there are no facts to learn from")
    return facts


def validation_id(validation: Facts | HeldOut) -> str:
    """A text that differs between different validation cells."""
    if isinstance(validation, Facts):
        return validation.fingerprint
    if isinstance(validation, HeldOut):
        return digest(validation.cells, validation.truth, validation.weights)
    return type(validation).__name__  # HeldOut.of will raise


def held_out(validation: Facts | HeldOut, shard: Shard, seed: int) -> HeldOut:
    """The validation cells of a fit; all workers must pass the same ones."""
    if shard.workers.size > 1:
        shard.workers.check_same(validation_id(validation), "validation facts")
    return HeldOut.of(validation, shard, seed)


def _without_address(value: object) -> object:
    """A parameter whose text is the same whenever it is the same."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [getattr(item, "text", item) for item in value]  # rules
    return "Generator" if isinstance(value, np.random.Generator) else value

"""Errors and warnings that relatent raises.

RelatentError
├── InputError (also ValueError)          a value or a file from the caller is wrong
│   ├── DataError                         facts that cannot be read or are inconsistent
│   ├── ModelFileError                    a model file that is truncated, altered or of another format
│   └── UnknownNameError (also KeyError)  a name that is not in the vocabulary
├── DownloadError                         a data set of the catalog could not be downloaded or verified
├── StopFitError                          raised by a progress callback: the fit ends and keeps the model so far
└── FitError                              a fit that diverged
    └── LostWorkerError                   another process of a distributed fit stopped responding

RelatentWarning (also UserWarning)
├── ConvergenceWarning                    a fit stopped before it converged
├── VanishedWarning                       the penalties shrank all factors to zero
├── CheckpointWarning                     the state of a fit could not be saved
└── DataWarning                           some of the input was not used
"""

from __future__ import annotations

import re

# control characters except a line break, directions of text, and halves of surrogate pairs
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class RelatentError(Exception):
    """Base class of all errors that relatent raises deliberately.

    >>> issubclass(InputError, RelatentError) and issubclass(FitError, RelatentError)
    True
    """


class InputError(RelatentError, ValueError):
    """A value from the caller is wrong; the message gives the value and says what to do.

    >>> import relatent
    >>> relatent.RescalALS(rank=0).fit(relatent.load_dataset("kinships"))
    Traceback (most recent call last):
    relatent.errors.InputError: rank must be a whole number of at least 1, got 0
    """


class DataError(InputError):
    """Facts that cannot be read or are inconsistent.

    >>> import relatent
    >>> relatent.read("nowhere.tsv")
    Traceback (most recent call last):
    relatent.errors.DataError: nowhere.tsv: no such file
    """


class ModelFileError(InputError):
    """A model file that is truncated, altered or of another format.

    >>> import relatent
    >>> relatent.load("nowhere.relatent")
    Traceback (most recent call last):
    relatent.errors.ModelFileError: nowhere.relatent does not exist; check the path
    """


class UnknownNameError(InputError, KeyError):
    """A name that is not in the vocabulary.

    >>> import relatent
    >>> relatent.load_dataset("kinship").relations
    Traceback (most recent call last):
    relatent.errors.UnknownNameError: unknown data set 'kinship'; did you mean 'kinships'?
    """

    def __str__(self) -> str:
        """The message itself; KeyError would show its repr."""
        return str(self.args[0])


class DownloadError(RelatentError):
    """A data set of the catalog could not be downloaded or verified.

    >>> issubclass(DownloadError, RelatentError)
    True
    """


class StopFitError(RelatentError):
    """Raised by a progress callback to end a fit after the current step; the fit keeps the model so far."""


class FitError(RelatentError):
    """A fit that diverged.

    >>> issubclass(FitError, RelatentError)
    True
    """


class LostWorkerError(FitError):
    """Another process of a distributed fit stopped responding.

    >>> issubclass(LostWorkerError, FitError)
    True
    """


class RelatentWarning(UserWarning):
    """Base class of all warnings of relatent.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", RelatentWarning)  # silences all of them
    """


class VanishedWarning(RelatentWarning):
    """The penalties shrank all factors to zero, so that every prediction is the same.

    >>> VanishedWarning.REMEDY.partition(";")[0]
    'the penalties are too strong for this few facts per entity'
    """

    REMEDY = (
        "the penalties are too strong for this few facts per entity; lower l2_entities and l2_relations, say to 0.1"
    )


class PoorFitWarning(RelatentWarning):
    """The factors explain little of the data; another model would do better.

    >>> issubclass(PoorFitWarning, RelatentWarning)
    True
    """


class ConvergenceWarning(RelatentWarning):
    """A fit stopped before it converged.

    >>> issubclass(ConvergenceWarning, RelatentWarning)
    True
    """


class CheckpointWarning(RelatentWarning):
    """The state of a fit could not be saved; the fit continues.

    >>> issubclass(CheckpointWarning, RelatentWarning)
    True
    """


class DataWarning(RelatentWarning):
    """Some of the input was not used.

    >>> issubclass(DataWarning, RelatentWarning)
    True
    """


def one_line(problem: object, max_characters: int = 500) -> str:
    """The message of another library's error, short and without line breaks; its class name if it has no message."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return text if len(text) <= max_characters else f"{text[:max_characters]}…"


def printable(text: str) -> str:
    """The text with control characters as escapes: a name in a data file must not control the terminal."""
    return UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)

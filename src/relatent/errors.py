"""What can go wrong, in one tree.

RelatentError
├── InputError (also ValueError)      the caller's value or file is at fault
│   ├── DataError                     facts that cannot be read or do not fit together
│   ├── ModelFileError                a model file that is truncated, tampered with or of another format
│   └── UnknownNameError (also KeyError)   a name that is not in the vocabulary
├── DownloadError                     a catalog data set that could not be fetched or checked
└── FitError                          a fit that diverged
    └── LostWorkerError               one of several processes that does not answer any more

ConvergenceWarning                    a fit that stopped before it converged
VanishedWarning                       a fit whose penalties left nothing of the factors
CheckpointWarning                     a fit whose state could not be kept
DataWarning                           input that was read, but not all of it was used
"""

from __future__ import annotations


class RelatentError(Exception):
    """Base of all errors raised by relatent on purpose."""


class InputError(RelatentError, ValueError):
    """A value the caller passed is at fault; the message names it and the remedy."""


class DataError(InputError):
    """Facts that cannot be read or do not fit together."""


class ModelFileError(InputError):
    """A model file that is truncated, tampered with or of another format."""


class UnknownNameError(InputError, KeyError):
    """A name that is not in the vocabulary."""

    def __str__(self) -> str:
        """The plain message; KeyError would show its repr."""
        return str(self.args[0])


class DownloadError(RelatentError):
    """A catalog data set that could not be fetched or checked."""


class FitError(RelatentError):
    """A fit that diverged."""


class LostWorkerError(FitError):
    """One of several processes that fit together does not answer any more."""


class RelatentWarning(UserWarning):
    """Base of all warnings given by relatent."""


class VanishedWarning(RelatentWarning):
    """The penalties have shrunk the factors to nothing: every answer is the same."""

    REMEDY = "the penalties are too large for so few facts an entity; lower l2_entities and l2_relations, say to 0.1"


class ConvergenceWarning(RelatentWarning):
    """A fit that stopped before it converged."""


class CheckpointWarning(RelatentWarning):
    """The state of a fit could not be kept; the fit itself goes on."""


class DataWarning(RelatentWarning):
    """Input that was read, but not all of it was used."""

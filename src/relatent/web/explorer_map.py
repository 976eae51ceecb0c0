"""The map and the groups of entities: slow results that are computed in the background."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from ..analysis.entity_map import MAX_ENTITIES_TSNE, Points, default_method, project, tsne_note
from ..analysis.groups import group_labels, group_members, typical_facts
from ..analysis.similarity import ROWS_PER_BLOCK, profile_basis, unit_rows
from ..arrays import Ids, Matrix
from ..backend.blas_threads import one_thread
from ..model.factors import Factors
from ..progress import Progress
from .background import BackgroundResult, InProgress
from .errors import NotFoundError, ParameterError
from .response_types import GroupList, GroupPage, GroupSummary, MapInfo, MapLayout

MEMBERS_IN_SUMMARY = 12
NO_GROUP = 0xFFFF  # group number of an entity without a group


class ExplorerMap:
    """Groups and plane coordinates of the entities of one model; usable from several threads."""

    def __init__(self, factors: Factors, heavy_work: threading.Lock):
        self.factors = factors
        self._basis: BackgroundResult[Matrix] = BackgroundResult(lambda _: profile_basis(factors))
        self.profiles: BackgroundResult[Matrix] = BackgroundResult(lambda _: self.rows(factors.A))
        self._members: BackgroundResult[list[Ids]] = BackgroundResult(self._find_groups, heavy_work)
        self._summaries: BackgroundResult[list[GroupSummary]] = BackgroundResult(self._summarise)
        self._planes: dict[str, BackgroundResult[Points]] = {
            "pca": BackgroundResult(lambda _: project(self.profiles.wait(), "pca")),
            "tsne": BackgroundResult(self._tsne, heavy_work),
        }

    def rows(self, A: Matrix) -> Matrix:
        """Profiles of these entity vectors, as `similar` compares them; single precision, as there may be millions."""
        T, rows = self._basis.wait(), np.empty(A.shape, np.float32)
        for low in range(0, len(A), ROWS_PER_BLOCK):
            rows[low : low + ROWS_PER_BLOCK] = unit_rows(A[low : low + ROWS_PER_BLOCK], T)
        return rows

    def groups(self) -> GroupList | InProgress:
        """All groups."""
        members = self._members.poll()
        if isinstance(members, InProgress):
            return members
        summaries = self._summaries.poll()
        return summaries if isinstance(summaries, InProgress) else GroupList(summaries)

    def group(
        self, number: int | None = None, entity: int | None = None, start: int = 0, count: int = 100
    ) -> GroupPage | InProgress:
        """One group, by its number or by the id of a member, and a page of its members."""
        listed = self.groups()
        if isinstance(listed, InProgress):
            return listed
        if entity is not None:
            number = int(self._group_numbers()[entity])
        if number is None or number >= len(listed.groups):
            raise NotFoundError("group", str(number), remedy="see /api/groups")
        members = self._members.wait()[number][start : start + count].tolist()
        return GroupPage(listed.groups[number], start, [self.factors.entities[i] for i in members])

    def layouts(self) -> MapInfo:
        """The layouts to choose from."""
        n = len(self.factors.entities)
        return MapInfo(
            n,
            [
                MapLayout("pca", "Principal components: an overview, computed at once.", True),
                MapLayout(
                    "tsne",
                    f"t-SNE: keeps neighbours together; up to {MAX_ENTITIES_TSNE:,} entities.",
                    n <= MAX_ENTITIES_TSNE,
                ),
            ],
            default_method(n),
        )

    def points(self, method: str = "pca") -> bytes | InProgress:
        """x and y of each entity, little-endian float32."""
        n = len(self.factors.entities)
        if method == "tsne" and n > MAX_ENTITIES_TSNE:
            raise ParameterError(
                f"tsne is limited to {MAX_ENTITIES_TSNE} entities; this model has {n}", "use method=pca"
            )
        points = self._planes[method].poll()
        return points if isinstance(points, InProgress) else points.astype("<f4").tobytes()

    def group_numbers(self) -> bytes | InProgress:
        """The group number of each entity, little-endian uint16; 65535 for none."""
        members = self._members.poll()
        return members if isinstance(members, InProgress) else self._group_numbers().astype("<u2").tobytes()

    def _find_groups(self, progress: Progress) -> list[Ids]:
        progress(0, 0, "comparing entities")
        import sklearn.cluster  # noqa: F401  (loaded before one_thread, which limits only loaded thread pools)

        B, types = self.profiles.wait(), self.factors.types
        with one_thread():
            labels = group_labels(self.factors, B, progress=progress) if types is None else types.main_types()
            return group_members(B, labels)[:NO_GROUP]

    def _summarise(self, progress: Progress) -> list[GroupSummary]:
        summaries, groups = [], self._members.wait()
        for number, members in enumerate(groups):
            progress(number, len(groups), "finding the typical facts of each group")
            typical = typical_facts(self.factors, members, 5)
            names = [self.factors.entities[i] for i in members[:MEMBERS_IN_SUMMARY].tolist()]
            summaries.append(GroupSummary(number, len(members), names, typical, self._type(int(members[0]))))
        return summaries

    def _type(self, entity: int) -> str | None:
        types = self.factors.types
        return None if types is None else types.names.shown(int(types.main_types()[entity]))

    def _group_numbers(self) -> NDArray[np.uint16]:
        """The group number of each entity, (N,)."""
        numbers = np.full(len(self.factors.entities), NO_GROUP, np.uint16)
        for number, members in enumerate(self._members.wait()):
            numbers[members] = number
        return numbers

    def _tsne(self, progress: Progress) -> Points:
        progress(0, 0, tsne_note(len(self.factors.entities)))
        return project(self.profiles.wait(), "tsne")

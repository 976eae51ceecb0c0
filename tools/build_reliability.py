"""Draw docs/reliability.svg: probabilities of held-out Kinships cells before and after calibration."""

from __future__ import annotations

from pathlib import Path

import relatent

TARGET = Path(__file__).resolve().parents[1] / "docs" / "reliability.svg"


def main() -> None:
    facts = relatent.load_dataset("kinships")
    logit = relatent.RescalLogit(rank=50, l2_entities=2, l2_relations=2)
    curves = {}
    for name, is_calibrated in (("not calibrated", False), ("calibrated", True)):
        report = relatent.cross_validate(logit, facts, folds=10, probabilities=is_calibrated)
        curves[name] = report.reliability
        print(f"{name}: log loss {report.log_loss:.4f}, ece {report.ece:.4f}, auc_pr {report.auc_pr:.4f}")
    relatent.plot_reliability(curves, TARGET, title="Kinships, 10 folds, held-out cells masked; cells with p > 0.05")


if __name__ == "__main__":
    main()

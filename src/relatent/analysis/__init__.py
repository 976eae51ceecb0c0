"""What a fitted model is used for: answers, similarity, groups, explanations, duplicates."""

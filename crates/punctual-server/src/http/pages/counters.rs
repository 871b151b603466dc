//! Counters since the start, read from the recorder's own text.

use std::collections::BTreeMap;

/// Sums of our counters over all their labels, by name without prefix and suffix.
pub(super) fn since_start(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("punctual_")) {
        if let Some((name, value)) = read(line) {
            *sums.entry(name).or_insert(0.0) += value;
        }
    }
    sums
}

fn read(line: &str) -> Option<(String, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').map_or((series, ""), |(name, labels)| (name, labels));
    let words = name.strip_prefix("punctual_")?.strip_suffix("_total")?.replace('_', " ");
    let outcome = labels.split_once("outcome=\"").and_then(|(_, rest)| rest.split('"').next());
    let name = outcome.map_or_else(|| words.clone(), |outcome| format!("{words}: {outcome}"));
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text = "# TYPE punctual_messages_enqueued_total counter\n\
                    punctual_messages_enqueued_total{topic=\"a b\"} 3\n\
                    punctual_messages_enqueued_total{topic=\"c\"} 4\n\
                    punctual_handled_total{topic=\"c\",outcome=\"done\"} 5\n\
                    punctual_queue_waiting{topic=\"c\"} 9\nother_total 1\n";
        let sums = since_start(text);
        assert_eq!(sums.len(), 2, "{sums:?}");
        assert!((sums["messages enqueued"] - 7.0).abs() < 0.1);
        assert!((sums["handled: done"] - 5.0).abs() < 0.1);
    }
}

//! The outcome of a run: figures with their spread, ratios with what is required of them; as a table
//! for people and as JSON for everything else.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::Pin;

use serde::Serialize;

use crate::machine::Machine;
use crate::series::Series;

/// A run on its way to its report. Its type says nothing of what is measured, so that it is compiled here.
pub type ReportFuture = Pin<Box<dyn Future<Output = anyhow::Result<Report>>>>;

/// Everything a run found out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// What it ran on.
    pub machine: Machine,
    /// How it was run.
    pub settings: BTreeMap<String, String>,
    /// Figures.
    pub results: Vec<Figure>,
    /// Figures set against each other or against a limit.
    pub ratios: Vec<Ratio>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// One thing measured.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What.
    pub name: String,
    /// In what.
    pub unit: String,
    /// The middle of all rounds.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many rounds, or samples.
    pub rounds: usize,
}

/// One thing required, or worth knowing.
#[derive(Debug, Clone, Serialize)]
pub struct Ratio {
    /// What.
    pub name: String,
    /// How it came out.
    pub value: f64,
    /// What is asked for; nothing where the value is for information.
    pub required: Option<Bound>,
    /// Whether that is given.
    pub met: Option<bool>,
}

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

impl Bound {
    /// Whether a value is allowed.
    #[must_use]
    pub fn allows(self, value: f64) -> bool {
        match self {
            Self::AtLeast(limit) => value >= limit,
            Self::AtMost(limit) => value <= limit,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(limit) => format!(">= {limit}"),
            Self::AtMost(limit) => format!("<= {limit}"),
        }
    }
}

impl Report {
    /// Adds the figures of a series; an empty one is left out.
    pub fn figure(&mut self, name: &str, unit: &str, series: &Series) {
        if series.is_empty() {
            return;
        }
        self.results.push(Figure {
            name: name.to_owned(),
            unit: unit.to_owned(),
            median: series.median(),
            min: series.min(),
            max: series.max(),
            rounds: series.len(),
        });
    }

    /// Adds a value with what is required of it. A value that could not be computed is not met.
    pub fn require(&mut self, name: &str, value: f64, bound: Bound) {
        let met = Some(bound.allows(value));
        self.ratios.push(Ratio { name: name.to_owned(), value, required: Some(bound), met });
    }

    /// Adds a value that is worth knowing.
    pub fn inform(&mut self, name: &str, value: f64) {
        self.ratios.push(Ratio { name: name.to_owned(), value, required: None, met: None });
    }

    /// Says what was left out, and why.
    pub fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        eprintln!("  {text}");
        self.notes.push(text);
    }

    /// Whether everything required is given.
    #[must_use]
    pub fn all_met(&self) -> bool {
        self.ratios.iter().all(|ratio| ratio.met != Some(false))
    }

    /// For other programs.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// For people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = format!("{}\n", self.machine.line());
        let settings: Vec<_> = self.settings.iter().map(|(n, v)| format!("{n}={v}")).collect();
        // Writing to a string does not fail.
        _ = writeln!(text, "{}\n", settings.join(", "));
        for figure in &self.results {
            _ = writeln!(text, "{}", figure.line());
        }
        text.push('\n');
        for ratio in &self.ratios {
            _ = writeln!(text, "{}", ratio.line());
        }
        for note in &self.notes {
            _ = writeln!(text, "note: {note}");
        }
        text
    }
}

impl Figure {
    fn line(&self) -> String {
        let [median, min, max] = [self.median, self.min, self.max].map(number);
        let spread = format!("[{min} - {max}]");
        format!("{:52} {median:>12} {:10} {spread:24} n={}", self.name, self.unit, self.rounds)
    }
}

impl Ratio {
    fn line(&self) -> String {
        let required = self.required.map(Bound::text).unwrap_or_default();
        let met = match self.met {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        };
        format!("{:64} {:>10} {required:10} {met}", self.name, number(self.value)).trim_end().to_owned()
    }
}

/// Large numbers whole, small ones with two places.
fn number(value: f64) -> String {
    if value.abs() >= 1000.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_judged_and_shown() {
        let mut report = Report::default();
        report.require("fast enough", 2.5, Bound::AtLeast(2.0));
        assert!(report.all_met());
        report.require("small enough", 41.0, Bound::AtMost(40.0));
        report.inform("by the way", 7.0);
        assert!(!report.all_met());
        assert!(report.table().contains("NOT MET"));
    }

    #[test]
    fn a_value_that_could_not_be_computed_is_not_met() {
        assert!(!Bound::AtLeast(0.8).allows(f64::NAN));
        assert!(!Bound::AtMost(0.8).allows(f64::NAN));
    }

    #[test]
    fn the_json_has_the_figures_and_the_bounds() -> serde_json::Result<()> {
        let mut report = Report::default();
        let mut series = Series::default();
        series.push(3.0);
        report.figure("drain", "messages/s", &series);
        report.require("drain", 3.0, Bound::AtLeast(1.0));
        let json: serde_json::Value = serde_json::from_str(&report.json()?)?;
        assert_eq!(json["results"][0]["median"], 3.0);
        assert_eq!(json["ratios"][0]["required"]["at_least"], 1.0);
        assert_eq!(json["ratios"][0]["met"], true);
        Ok(())
    }
}

//! How long history is kept, by the flags and the file.

use super::{File, Flags, length};
use crate::cli::failure::Outcome;
use punctual::operate::run::prune::RetentionSettings;

/// Decides how long each sort of history is kept.
///
/// # Errors
/// One sentence about the first length that is none.
pub(super) fn decide(flags: &Flags, file: &File) -> Outcome<RetentionSettings> {
    let mut settings = RetentionSettings::default();
    let asked = [
        ("retention", &flags.retention, &file.retention, &mut settings.messages),
        ("log_retention", &flags.log_retention, &file.log_retention, &mut settings.log),
        ("survey_retention", &flags.survey_retention, &file.survey_retention, &mut settings.surveys),
        ("run_retention", &flags.run_retention, &file.run_retention, &mut settings.runs),
        ("lease_retention", &flags.lease_retention, &file.lease_retention, &mut settings.leases),
        (
            "message_id_retention",
            &flags.message_id_retention,
            &file.message_id_retention,
            &mut settings.message_ids,
        ),
    ];
    for (name, flag, in_file, setting) in asked {
        if let Some(kept) = length(name, flag.clone().or_else(|| in_file.clone()))? {
            *setting = kept;
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// PLT-8: how long finished rows are kept is configurable for each sort of them.
    #[test]
    fn plt_8_each_retention_is_a_flag_and_a_setting_of_the_file() {
        let text = |length: &str| Some(length.to_owned());
        let file = File {
            retention: text("1d"),
            log_retention: text("2d"),
            survey_retention: text("3d"),
            run_retention: text("4d"),
            lease_retention: text("5d"),
            message_id_retention: text("6d"),
            ..File::default()
        };
        let days = |settings: RetentionSettings| settings.named().map(|(_, kept)| kept.as_secs() / 86_400);
        assert_eq!(days(decide(&Flags::default(), &File::default()).unwrap()), [30, 400, 400, 30, 30, 800]);
        assert_eq!(days(decide(&Flags::default(), &file).unwrap()), [1, 2, 3, 4, 5, 6]);
        let flags = Flags { run_retention: text("9d"), ..Flags::default() };
        assert_eq!(days(decide(&flags, &file).unwrap()), [1, 2, 3, 9, 5, 6], "a flag goes before the file");
        let wrong = Flags { lease_retention: text("long"), ..Flags::default() };
        let said = decide(&wrong, &file).unwrap_err().sentence;
        assert!(said.contains("lease_retention: `long` is not a duration"), "{said}");
        assert_eq!(decide(&flags, &file).unwrap().runs, Duration::from_secs(9 * 86_400));
    }
}

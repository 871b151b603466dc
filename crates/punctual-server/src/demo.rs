//! A small shop at work: orders come in, invoices follow, mails go out; some go wrong now
//! and then, as in life. Beside it a garage asks its customers how it was, and a hotel confirms bookings.
//!
//! It is only there to be looked at. What happens is drawn at random; nothing leaves the
//! process.

pub mod fakes;
pub mod garage;
pub mod hotel;
mod shop;

pub use shop::{TOPICS, handle, prepare, sell};

use crate::app::Exposure;
use crate::cli::failure::{CommandFailure, Outcome};
use crate::config::Config;
use punctual::base::random;

/// The settings of a demo: a key if there is none, and no public address by accident.
///
/// # Errors
/// PRD-15: everybody who reaches the demo may look at it, so a public address is refused
/// unless it was asked for.
pub fn settings(mut config: Config, allow_public: bool) -> Outcome<(Config, Option<String>)> {
    if config.exposure() != Exposure::Local && !allow_public {
        return Err(CommandFailure::usage(format!(
            "the demo is open to everybody who reaches it, and {} is not only this machine; \
             say --allow-public if that is meant",
            config.listen
        )));
    }
    let made = config.root_key.is_none().then(|| format!("demo_{}", random::hex::<16>()));
    if let Some(key) = &made {
        config.root_key = Some(key.clone());
    }
    Ok((config, made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{File, Flags};

    fn config(listen: &str) -> Config {
        let flags = Flags { listen: Some(listen.into()), ..Flags::default() };
        Config::decide(Some("sqlite::memory:".into()), flags, (None, File::default())).unwrap()
    }

    /// PRD-15: a demo on a public address is refused unless told.
    #[test]
    fn prd_15_a_public_demo_is_refused_unless_told() {
        let said = settings(config("0.0.0.0:0"), false).unwrap_err().sentence;
        assert!(said.contains("--allow-public"), "{said}");
        assert!(settings(config("0.0.0.0:0"), true).is_ok());
        assert!(settings(config("127.0.0.1:0"), false).is_ok());
    }

    #[test]
    fn a_key_is_made_when_there_is_none() {
        let (config, made) = settings(config("127.0.0.1:0"), false).unwrap();
        assert_eq!(config.root_key, made);
        assert!(made.unwrap().len() >= 32);
    }
}

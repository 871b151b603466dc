//! The style and the script of the page. Their paths have a hash of their content, so that a browser
//! keeps them for good and still gets a new one after an upgrade.

use punctual::base::digest;
use std::sync::LazyLock;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
/// Characters of the digest in a path.
const HASH_CHARS: usize = 12;

static ASSETS: LazyLock<[PageAsset; 2]> = LazyLock::new(|| {
    [
        PageAsset::new("css", "text/css; charset=utf-8", STYLE),
        PageAsset::new("js", "text/javascript; charset=utf-8", SCRIPT),
    ]
});

/// A file of the page.
#[derive(Debug)]
pub struct PageAsset {
    /// Its name below `/s/assets/`.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

impl PageAsset {
    fn new(ending: &str, media_type: &'static str, text: &'static str) -> Self {
        let digest = digest::of([text.as_bytes()]);
        let hash = digest.get(..HASH_CHARS).unwrap_or(&digest);
        Self { name: format!("survey-{hash}.{ending}"), media_type, text }
    }

    /// The file of a name.
    pub fn find(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|file| file.name == name)
    }

    /// The style.
    pub fn style() -> &'static Self {
        &ASSETS[0]
    }

    /// The script.
    pub fn script() -> &'static Self {
        &ASSETS[1]
    }
}

//! A small disk that can be filled up: a file system in memory, where we may mount one.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The file system, gone with this value or with this process.
pub struct SmallDisk {
    keeper: Child,
    folder: PathBuf,
}

const MEGABYTES: u32 = 160;

/// Mounts, says so, and unmounts when its standard input ends.
const KEEPER: &str = r#"
mount -t tmpfs -o size=$2m,mode=0777 punctual "$1" || exit 1
echo mounted
cat >/dev/null
umount -l "$1"
rmdir "$1"
"#;

impl SmallDisk {
    /// A disk, or why there is none here: only root may mount.
    pub fn new() -> Result<Self, String> {
        let folder =
            std::env::temp_dir().join(format!("punctual_disk_{}", punctual::base::random::hex::<6>()));
        std::fs::create_dir(&folder).map_err(|e| e.to_string())?;
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "keeper"])
            .arg(&folder)
            .arg(MEGABYTES.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string())?;
        let mut said = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut said).ok();
        if said.trim() == "mounted" {
            return Ok(Self { keeper, folder });
        }
        keeper.wait().ok();
        std::fs::remove_dir(&folder).ok();
        Err("no file system can be mounted here: that takes root".into())
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves no room.
    pub fn fill(&self) {
        let mut ballast = std::fs::File::create(self.folder.join("ballast")).unwrap();
        for block in [1 << 16, 1 << 9, 1] {
            while ballast.write_all(&vec![0; block]).is_ok() {}
        }
    }

    /// Makes room again.
    pub fn free(&self) {
        std::fs::remove_file(self.folder.join("ballast")).ok();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        self.keeper.wait().ok();
    }
}

//! The virtual file system: the default one, with two methods of write-ahead logs replaced.
//!
//! A file is opened by the default file system, in the memory that SQLite gave for it. Its table of methods
//! is then exchanged for a copy that has our `write`, `sync` and `close`; those call the original ones.

use crate::{Fault, Operation, verdict};
use rusqlite::ffi;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

/// The default file system that stands behind ours.
struct Original(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite itself shares a registered file system between threads.
unsafe impl Send for Original {}
// SAFETY: as above.
unsafe impl Sync for Original {}

static ORIGINAL: OnceLock<Original> = OnceLock::new();

/// An open log: where it lies, and the methods of its file.
#[derive(Clone)]
struct Log {
    path: PathBuf,
    methods: &'static ffi::sqlite3_io_methods,
}

/// The logs that are open, by the address of their file.
static OPEN: Mutex<Option<HashMap<usize, Log>>> = Mutex::new(None);

fn open_logs() -> MutexGuard<'static, Option<HashMap<usize, Log>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn log_at(file: *mut ffi::sqlite3_file) -> Option<Log> {
    open_logs().as_ref().and_then(|logs| logs.get(&(file as usize)).cloned())
}

/// Makes the faulty disk the default file system of this process. Databases that are open already are not
/// on it.
///
/// # Panics
/// When SQLite has no default file system.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a null name asks for the default; what is registered is never taken away by this process.
        let original = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()) };
        assert!(!original.is_null(), "SQLite has no default file system");
        let _ = ORIGINAL.set(Original(original));
        // SAFETY: `original` is valid, and its fields are plain data and function pointers.
        let mut ours = unsafe { *original };
        ours.zName = c"faulty".as_ptr();
        ours.pNext = std::ptr::null_mut();
        ours.xOpen = Some(open);
        // SAFETY: the leaked table lives as long as the process.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1) };
        assert_eq!(code, ffi::SQLITE_OK, "the faulty disk could not be registered");
    });
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(Original(original)) = ORIGINAL.get() else { return ffi::SQLITE_ERROR };
    // SAFETY: `original` is the file system that ours was copied from, so it wants the same memory.
    let code = unsafe {
        let Some(open) = (**original).xOpen else { return ffi::SQLITE_ERROR };
        open(*original, name, file, flags, out)
    };
    if code == ffi::SQLITE_OK && flags & ffi::SQLITE_OPEN_WAL != 0 && !name.is_null() {
        // SAFETY: the file was opened, so it has methods; its name is a C string.
        unsafe { replace_methods(file, name) };
    }
    code
}

/// # Safety
/// The file must be open, and the name a C string.
unsafe fn replace_methods(file: *mut ffi::sqlite3_file, name: *const c_char) {
    // SAFETY: methods of open files are static tables.
    let methods: &'static ffi::sqlite3_io_methods = unsafe { &*(*file).pMethods };
    let ours =
        ffi::sqlite3_io_methods { xWrite: Some(write), xSync: Some(sync), xClose: Some(close), ..*methods };
    // SAFETY: the caller gives a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let path = PathBuf::from(OsStr::from_bytes(name.to_bytes()));
    open_logs().get_or_insert_default().insert(file as usize, Log { path, methods });
    // SAFETY: the file is open; the leaked table outlives it. Tests open few logs.
    unsafe { (*file).pMethods = Box::leak(Box::new(ours)) };
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let Some(log) = log_at(file) else { return ffi::SQLITE_IOERR_WRITE };
    let Some(write) = log.methods.xWrite else { return ffi::SQLITE_IOERR_WRITE };
    let fault = verdict(&log.path, Operation::Write(usize::try_from(count).unwrap_or_default()));
    let done = match fault {
        None | Some(Fault::Done) => count,
        Some(Fault::HalfDone) => count / 2,
        Some(Fault::NotDone) => 0,
    };
    // SAFETY: the original method, with the original arguments or fewer bytes.
    let code = if done > 0 { unsafe { write(file, bytes, done, offset) } } else { ffi::SQLITE_OK };
    if fault.is_some() { ffi::SQLITE_FULL } else { code }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let Some(log) = log_at(file) else { return ffi::SQLITE_IOERR_FSYNC };
    let Some(sync) = log.methods.xSync else { return ffi::SQLITE_IOERR_FSYNC };
    match verdict(&log.path, Operation::Sync) {
        Some(Fault::NotDone | Fault::HalfDone) => ffi::SQLITE_IOERR_FSYNC,
        // SAFETY: the original method with the original arguments.
        None => unsafe { sync(file, flags) },
        Some(Fault::Done) => {
            // SAFETY: as above.
            unsafe { sync(file, flags) };
            ffi::SQLITE_IOERR_FSYNC
        }
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let log = open_logs().as_mut().and_then(|logs| logs.remove(&(file as usize)));
    let Some(close) = log.and_then(|log| log.methods.xClose) else { return ffi::SQLITE_OK };
    // SAFETY: the original method; the file is not used after it.
    unsafe { close(file) }
}

//! The `punctual` binary: parses the command line, runs one command, ends with its code.

/// Messages are made on one thread and dropped on another, which the system's allocator
/// answers with locks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    punctual_server::cli::main()
}

//! The `punctual` binary: parses the command line, runs one command, ends with its code.

fn main() -> std::process::ExitCode {
    punctual_server::cli::main()
}

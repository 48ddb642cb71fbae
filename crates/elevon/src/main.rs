//! The command `elevon`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    elevon::command()
}

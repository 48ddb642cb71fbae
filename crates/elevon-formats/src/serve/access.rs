//! Which clients may connect to the sockets of a server, and which may open an export.

use crate::toml_reader::{Reader, TomlEntry};

/// Returns true if a client is given by the user or the group of its process: `uid:1000`, `gid:6`.
/// Any other is a name in a certificate.
pub fn is_owner(client: &str) -> bool {
    ["uid:", "gid:"].iter().any(|kind| client.starts_with(kind))
}

/// Parses the mode of a socket, in octal digits: up to 0777.
///
/// # Errors
/// The text is none.
pub fn socket_mode(text: &str) -> Result<u32, SocketModeError> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| is_octal && *mode <= 0o777);
    mode.ok_or(SocketModeError)
}

/// A text that is no mode of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a mode in octal digits up to 0777, as a text, such as \"0660\"")]
pub struct SocketModeError;

/// Returns the mode of a socket.
pub(super) fn mode(reader: &mut Reader<'_>, key: &str, entry: &TomlEntry<'_>) -> Option<u32> {
    let given = reader.text(key, entry)?;
    let mode = socket_mode(&given.value);
    if let Err(error) = &mode {
        reader.complain(entry.at.start, key, error.to_string());
    }
    mode.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_a_number_of_octal_digits() {
        assert_eq!(
            (socket_mode("0660"), socket_mode("600"), socket_mode("0777")),
            (Ok(0o660), Ok(0o600), Ok(0o777))
        );
        for text in ["", "0888", "1777", "+660", "rw", "0o660"] {
            assert_eq!(socket_mode(text), Err(SocketModeError), "{text}");
        }
    }
}

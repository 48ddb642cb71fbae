//! The table `tls` of a device: how TLS is spoken towards the server of its disk.

use super::DeviceTlsTable;
use crate::diagnostic::Problem;
use crate::toml_reader::{self, Reader, TomlEntry, Value};
use crate::toml_text::quoted;

const DEVICE_TLS_KEYS: [&str; 5] = ["certificates", "ca", "certificate", "key", "hostname"];

/// Reads the table `tls` of a device, whose key is `scope`.
pub(super) fn device_tls(
    reader: &mut Reader<'_>,
    scope: &str,
    entry: &TomlEntry<'_>,
) -> Option<DeviceTlsTable> {
    let Value::Table(table) = entry.value else {
        reader.complain(
            entry.at.start,
            scope,
            "expected a table, such as tls = { certificates = \"DIR\" }",
        );
        return None;
    };
    let (mut found, before) = (DeviceTlsTable::default(), reader.complaints.len());
    for inner in toml_reader::entries(table) {
        let key = format!("{scope}.{}", quoted(inner.name));
        match inner.name {
            "certificates" => found.certificates = reader.text(&key, &inner),
            "ca" => found.ca = reader.text(&key, &inner),
            "certificate" => found.certificate = reader.text(&key, &inner),
            "key" => found.key = reader.text(&key, &inner),
            "hostname" => found.hostname = reader.text(&key, &inner),
            _ => reader.unknown(&key, &inner, &DEVICE_TLS_KEYS),
        }
    }
    let has_own = (found.certificate.is_some(), found.key.is_some());
    let wrong = match (found.certificates.is_some(), found.ca.is_some(), has_own) {
        _ if reader.complaints.len() > before => return None,
        (true, false, (false, false)) | (false, true, (true, true) | (false, false)) => {
            return Some(found);
        }
        (true, ..) => {
            "certificates is a folder that has all files; leave ca, certificate and key out"
        }
        (false, false, _) => {
            "ca is missing: the authorities that sign the server's certificate; or certificates, a folder"
        }
        (false, true, (true, false)) => "key is missing: the private key of the certificate",
        (false, true, (false, true)) => "certificate is missing: the certificate of the key",
    };
    reader.complain(entry.key.start, scope, Problem::Missing.because(wrong));
    None
}

//! The files of TLS, as a configuration or options name them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use elevon_formats::device::Given;
use elevon_formats::fio::Problem;
use elevon_formats::serve::{ServeFile, TlsTable};
use elevon_serve::{Tls, TlsError, TlsFiles};

use crate::args::ServeArgs;
use crate::failure::{ConflictError, Failure};

/// Reads the files of a configuration.
pub(super) fn of_file(file: &ServeFile) -> Result<Option<Tls>, Failure> {
    let Some(table) = &file.tls else { return Ok(None) };
    let path = |given: &Option<Given>| given.as_ref().map(|given| PathBuf::from(&given.value)).unwrap_or_default();
    let files = match &table.certificates {
        Some(folder) => TlsFiles::of_folder(Path::new(&folder.value), table.required),
        None => TlsFiles {
            certificate: path(&table.certificate),
            key: path(&table.key),
            client_ca: table.client_ca.as_ref().map(|given| PathBuf::from(&given.value)),
            required: table.required,
        },
    };
    let tls = Tls::load(&files).map_err(|error| placed(table, &error))?;
    let named = file.exports.iter().find_map(|export| export.clients.first());
    match (named, &table.certificates) {
        (Some(clients), Some(folder)) if tls.client_ca().is_none() => {
            let message = format!("names of clients come from their certificates; {} has no ca-cert.pem", folder.value);
            Err(Failure::text(vec![clients.place.diagnostic(&clients.key, Problem::Missing.because(message))]))
        }
        _ => Ok(Some(tls)),
    }
}

/// Returns whether clients have to show a certificate, in words.
pub(super) fn clients_in_words(tls: &Tls) -> String {
    match tls.client_ca() {
        Some(ca) => {
            let others = if tls.is_required() { "" } else { "; those without TLS are not" };
            let ca = ca.display();
            format!("clients that use TLS are verified: an authority of {ca} has signed their certificates{others}")
        }
        None => "clients that use TLS are not verified: there is no certificate of an authority for them".to_owned(),
    }
}

/// Returns why TLS cannot take the place of what is in force; `None` if it can. Whom an authority
/// kept out is not let in by a file that was moved away.
pub(super) fn refused(old: Option<&Tls>, new: Option<&Tls>) -> Option<String> {
    let ca = old.and_then(Tls::client_ca).filter(|_| new.and_then(Tls::client_ca).is_none())?;
    Some(format!("tls: clients are verified by {} and would no longer be; that takes a restart", ca.display()))
}

/// A certificate that ends within this time is warned of.
const NEAR: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 3600;

/// Returns a warning about a certificate of the server that has expired, or will soon.
pub(super) fn expiry_warning(tls: &Tls) -> Option<String> {
    let words = expiry_in_words(tls.expires()?, SystemTime::now())?;
    Some(format!("{}: the server's certificate {words}", tls.certificate().display()))
}

/// Returns what is to be said of a certificate that expires at a time.
fn expiry_in_words(expires: SystemTime, now: SystemTime) -> Option<String> {
    let days = |span: Duration| match span.as_secs() / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    match expires.duration_since(now) {
        Ok(left) if left >= NEAR => None,
        Ok(left) => Some(format!("expires in {}", days(left))),
        Err(past) => Some(format!("expired {} ago: clients refuse it", days(past.duration()))),
    }
}

/// Reads the files of options.
pub(super) fn of_args(args: &ServeArgs) -> Result<Option<Tls>, Failure> {
    let required = args.tls_required.unwrap_or(true);
    let (option, files) = match (&args.tls_certificates, &args.tls_certificate, &args.tls_key) {
        (Some(folder), ..) => ("--tls-certificates", TlsFiles::of_folder(folder, required)),
        (None, Some(certificate), Some(key)) => {
            let (certificate, key, client_ca) = (certificate.clone(), key.clone(), args.tls_client_ca.clone());
            ("--tls-certificate", TlsFiles { certificate, key, client_ca, required })
        }
        _ => return Ok(None),
    };
    let load = Tls::load(&files);
    if let (Ok(tls), Some(name)) = (&load, args.clients.first())
        && tls.client_ca().is_none()
    {
        let error = ConflictError::NoClientAuthority { folder: args.tls_certificates.clone() };
        return Err(Failure::named(format!("--client {name}"), error));
    }
    load.map(Some).map_err(|error| {
        let is_of = |file: &Option<PathBuf>| file.as_deref() == Some(error.path());
        let option = match option {
            "--tls-certificate" if is_of(&args.tls_key) => "--tls-key",
            "--tls-certificate" if is_of(&args.tls_client_ca) => "--tls-client-ca",
            option => option,
        };
        Failure::named(option, error)
    })
}

/// Returns an error about a file at the key that names it.
fn placed(table: &TlsTable, error: &TlsError) -> Failure {
    let keys = [&table.certificate, &table.key, &table.client_ca];
    let is_named = |given: &&Given| Path::new(&given.value) == error.path();
    let given = keys.into_iter().flatten().find(is_named).or(table.certificates.as_ref());
    let (place, key) = given.map_or((&table.place, "tls"), |given| (&given.place, given.key.as_str()));
    Failure::text(vec![place.diagnostic(key, Problem::Malformed.because(error.to_string()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_warned_of_from_two_weeks_before_its_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 * DAY);
        let says = |days: i64, expected: Option<&str>| {
            let span = Duration::from_secs(days.unsigned_abs() * DAY);
            let expires = if days < 0 { now - span } else { now + span };
            assert_eq!(expiry_in_words(expires, now).as_deref(), expected, "{days} days");
        };
        says(14, None);
        says(13, Some("expires in 13 days"));
        says(0, Some("expires in less than a day"));
        says(-1, Some("expired 1 day ago: clients refuse it"));
    }
}

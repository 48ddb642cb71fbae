//! The files of TLS, as a configuration or options name them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use elevon_formats::device::Given;
use elevon_formats::fio::Problem;
use elevon_formats::serve::{ServeFile, TlsTable, is_owner};
use elevon_plan::failure::Failure;
use elevon_serve::{Tls, TlsError, TlsFiles, Validity};

use crate::args::ServeArgs;
use crate::error::CommandError;

/// Reads the files of a configuration.
pub(super) fn of_file(file: &ServeFile) -> Result<Option<Tls>, Failure> {
    let Some(table) = &file.tls else { return Ok(None) };
    let path = |given: &Option<Given>| {
        given.as_ref().map(|given| PathBuf::from(&given.value)).unwrap_or_default()
    };
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
    let is_name = |given: &&Given| !is_owner(&given.value);
    let named = file.exports.iter().find_map(|export| export.clients.iter().find(is_name));
    match (named, &table.certificates) {
        (Some(clients), Some(folder)) if tls.client_ca().is_none() => {
            let message = format!(
                "names of clients come from their certificates; {} has no ca-cert.pem",
                folder.value
            );
            Err(Failure::text(vec![
                clients.place.diagnostic(&clients.key, Problem::Missing.because(message)),
            ]))
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

/// Returns why TLS cannot take the place of what is in force; `None` if it can. A client that an
/// authority kept out is not let in by a file that was moved away.
pub(super) fn refused(old: Option<&Tls>, new: Option<&Tls>) -> Option<String> {
    let ca = old.and_then(Tls::client_ca).filter(|_| new.and_then(Tls::client_ca).is_none())?;
    Some(format!(
        "tls: clients are verified by {} and would no longer be; that takes a restart",
        ca.display()
    ))
}

/// A certificate that ends within this time is warned of.
const WARN_BEFORE: Duration = Duration::from_secs(14 * DAY);
const DAY: u64 = 24 * 3600;

/// Returns a warning for each certificate that is not valid now, or not for long, and for one that
/// is not for servers.
pub(super) fn warnings(tls: &Tls) -> Vec<String> {
    let now = SystemTime::now();
    let of_span = |span: &Validity| {
        let (whose, then) = match span.is_of_clients {
            true => (
                "a certificate of an authority for clients",
                "make a new one, and new ones of its clients",
            ),
            false => ("the server's certificate", "clients refuse it"),
        };
        let words = span_in_words(span, now, then)?;
        Some(format!("{}: {whose} {words}", span.file.display()))
    };
    let for_clients = tls.is_for_clients().then(|| {
        let words =
            "the server's certificate is not for servers (extended key usage): clients refuse it";
        format!("{}: {words}", tls.certificate().display())
    });
    let mut all: Vec<String> = tls.spans().iter().filter_map(of_span).chain(for_clients).collect();
    all.dedup();
    all
}

/// Returns what is to be said of a certificate now, and what follows from it if it is not valid.
fn span_in_words(span: &Validity, now: SystemTime, then: &str) -> Option<String> {
    let days = |span: Duration| match span.as_secs() / DAY {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    if let Ok(early) = span.from.duration_since(now)
        && !early.is_zero()
    {
        let then = if span.is_of_clients { String::new() } else { format!(": {then} until then") };
        return Some(format!("is not valid yet, but in {}{then}", days(early)));
    }
    match span.until.duration_since(now) {
        Ok(left) if left >= WARN_BEFORE => None,
        Ok(left) => Some(format!("expires in {}", days(left))),
        Err(past) => Some(format!("expired {} ago: {then}", days(past.duration()))),
    }
}

/// Reads the files of options.
pub(super) fn of_args(args: &ServeArgs) -> Result<Option<Tls>, Failure> {
    let required = args.tls_required.unwrap_or(true);
    let (option, files) = match (&args.tls_certificates, &args.tls_certificate, &args.tls_key) {
        (Some(folder), ..) => ("--tls-certificates", TlsFiles::of_folder(folder, required)),
        (None, Some(certificate), Some(key)) => {
            let (certificate, key, client_ca) =
                (certificate.clone(), key.clone(), args.tls_client_ca.clone());
            ("--tls-certificate", TlsFiles { certificate, key, client_ca, required })
        }
        _ => {
            let name = args.clients.iter().find(|name| !is_owner(name));
            let error = CommandError::NoClientAuthority { folder: None };
            return name
                .map_or(Ok(None), |name| Err(Failure::named(format!("--client {name}"), error)));
        }
    };
    let load = Tls::load(&files);
    if let (Ok(tls), Some(name)) = (&load, args.clients.iter().find(|name| !is_owner(name)))
        && tls.client_ca().is_none()
    {
        let error = CommandError::NoClientAuthority { folder: args.tls_certificates.clone() };
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
    let (place, key) =
        given.map_or((&table.place, "tls"), |given| (&given.place, given.key.as_str()));
    Failure::text(vec![place.diagnostic(key, Problem::Malformed.because(error.to_string()))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_warned_of_outside_its_time_and_from_two_weeks_before_its_end() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 * DAY);
        let at = |days: i64| {
            let span = Duration::from_secs(days.unsigned_abs() * DAY);
            if days < 0 { now - span } else { now + span }
        };
        let says = |from: i64, until: i64, expected: Option<&str>| {
            let span = Validity {
                file: PathBuf::new(),
                is_of_clients: false,
                from: at(from),
                until: at(until),
            };
            assert_eq!(
                span_in_words(&span, now, "clients refuse it").as_deref(),
                expected,
                "{from} to {until}"
            );
        };
        says(-1, 14, None);
        says(0, 13, Some("expires in 13 days"));
        says(-1, 0, Some("expires in less than a day"));
        says(-2, -1, Some("expired 1 day ago: clients refuse it"));
        says(2, 400, Some("is not valid yet, but in 2 days: clients refuse it until then"));
    }
}

//! The files of TLS, as a configuration or options name them.

use std::path::{Path, PathBuf};

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
        (Some(clients), Some(folder)) if !tls.verifies_clients() => {
            let message = format!("names of clients come from their certificates; {} has no ca-cert.pem", folder.value);
            Err(Failure::text(vec![clients.place.diagnostic(&clients.key, Problem::Missing.because(message))]))
        }
        _ => Ok(Some(tls)),
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
        && !tls.verifies_clients()
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

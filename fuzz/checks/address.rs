//! Properties that must hold for any text given as the address of an export. A module of
//! the server has this check.

use crate::{Address, UpstreamAddress};

/// Checks that the text gives an error of one line, or an address that is the same after it is
/// written without what a client may encode.
pub(crate) fn address(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<UpstreamAddress>() {
        Err(error) => assert!(error.to_string().lines().count() == 1),
        Ok(address) => {
            assert!(UpstreamAddress::is_one(&text) && address.is_same_export(&address));
            assert!(address.export.len() <= 4096);
            let written = address.to_string();
            assert!(UpstreamAddress::is_one(&written), "{written}");
            // It is written decoded, for people: what has to be encoded may not be read back.
            let place = match &address.server {
                Address::Unix(path) => path.to_string_lossy().into_owned(),
                Address::Tcp(place) => place.clone(),
            };
            if (place + &address.export).contains(['%', '?', '&', '#', '=', '+', '\u{fffd}']) {
                return;
            }
            let again: UpstreamAddress =
                written.parse().unwrap_or_else(|error| panic!("{text} is {written}: {error}"));
            assert!(again.is_same_export(&address), "{text} is {written}: {again:?} {address:?}");
        }
    }
    if let Ok(address) = text.parse::<Address>() {
        let written = address.to_string();
        assert_eq!(written.parse::<Address>(), Ok(address), "{text} is {written}");
    }
}

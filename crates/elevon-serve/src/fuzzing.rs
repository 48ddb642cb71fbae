//! Checks of the fuzzer that use what other crates cannot see. They are no part of the interface.

#[cfg(test)]
#[path = "../../../fuzz/checks/corpus.rs"]
mod corpus;
#[path = "../../../fuzz/checks/address.rs"]
mod of_address;
#[path = "../../../fuzz/checks/command.rs"]
mod of_command;
#[path = "../../../fuzz/checks/http.rs"]
mod of_http;

/// Checks bytes as the address of an export, or of a listener.
pub fn address(data: &[u8]) {
    of_address::address(data);
}

/// Checks bytes as what a control socket gets.
pub fn command(data: &[u8]) {
    of_command::command(data);
}

/// Checks bytes as what a client of HTTP sends.
pub fn http(data: &[u8]) {
    of_http::http(data);
}

#[cfg(test)]
mod tests {
    use super::corpus;

    #[test]
    fn the_corpora_of_what_clients_send_hold() {
        corpus::each("command", 4, 1, b"0\"{}\n", super::command);
        corpus::each("http", 4, 1, b" /\r\n", super::http);
    }

    #[test]
    fn the_corpus_of_addresses_holds() {
        corpus::each("address", 6, 1, b":/%?&[", super::address);
    }
}

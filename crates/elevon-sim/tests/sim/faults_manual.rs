//! Checks that the list in `docs/faults.md` equals the table of faults. `UPDATE_DOCS=1 cargo test
//! -p elevon-sim --test sim faults_manual` updates it.

use elevon_sim::device::fault::kinds;

const MARK: &str = "<!-- From here on written from the table of faults. -->\n";

#[test]
fn the_manual_lists_what_the_table_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");
    let text = std::fs::read_to_string(path).expect("docs/faults.md");
    let (head, _) = text.split_once(MARK).expect("the mark before the list");
    let expected = format!("{head}{MARK}\n{}", kinds::markdown());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, expected).expect("docs/faults.md is writable");
        return;
    }
    let stale = text.lines().zip(expected.lines()).find(|(is, should)| is != should);
    assert!(text == expected, "docs/faults.md is stale, run with UPDATE_DOCS=1; first difference: {stale:?}");
}

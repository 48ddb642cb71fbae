//! Checks that the list in `docs/faults.md` equals the table of faults. `UPDATE_DOCS=1 cargo test
//! -p elevon-sim --test sim faults_manual` updates it.

use elevon_sim::device::fault::kinds;
use elevon_testkit::{hold_document, replace_after};

const MARK: &str = "<!-- From here on written from the table of faults. -->\n\n";

#[test]
fn the_manual_lists_what_the_table_has() {
    hold_document("docs/faults.md", |text| replace_after(text, MARK, &kinds::markdown()));
}

//! Checks the Markdown files: each link and each path leads to something, and each page of `docs/`
//! is in an index.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{root, sources};

/// Returns every Markdown file of the repository with its text.
pub(crate) fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if name.ends_with(".md") {
                let text = fs::read_to_string(&path).expect("UTF-8 text");
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 40, "the documents were not found");
    found
}

/// A document names a source file by its whole path or by the end of it.
#[test]
fn source_files_that_documents_name_exist() {
    let sources = sources();
    let exists = |named: &str| {
        root().join(named).exists() || sources.iter().any(|(path, _)| path.ends_with(named))
    };
    let mut named = 0;
    for (path, text) in documents() {
        // Between two backticks is every second part of a line.
        let words = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        for file in words.filter(|word| {
            word.ends_with(".rs") && !word.contains([' ', '*', '<', '{']) && *word != "foo/tests.rs"
        }) {
            assert!(exists(file), "{}: there is no `{file}`", path.display());
            named += 1;
        }
    }
    assert!(named > 50, "only {named} were found");
}

/// Yields the lines of a page without its blocks of code.
pub(crate) fn prose_lines(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of the links of a page.
fn links(page: &str) -> Vec<&str> {
    let parts = prose_lines(page).flat_map(|line| line.split("](").skip(1));
    parts.filter_map(|part| part.split_once(')')).map(|(target, _)| target).collect()
}

/// Returns the names by which a link finds the headings of a page, as forges and mdbook make them.
fn anchors(page: &str) -> Vec<String> {
    let headings = prose_lines(page).filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| heading.chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let docs = root().join("docs").canonicalize().expect("the pages");
    let mut checked = 0;
    for (path, text) in documents() {
        for target in links(&text).into_iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() {
                path.clone()
            } else {
                path.parent().expect("a folder").join(file)
            };
            assert!(to.exists(), "{}: {target}: there is no such file", path.display());
            let is_of_the_site =
                |path: &Path| path.canonicalize().expect("a path").starts_with(&docs);
            assert!(
                !is_of_the_site(&path) || is_of_the_site(&to),
                "{}: {target}: the site of docs/ has no such page; name the path",
                path.display()
            );
            if !anchor.is_empty() {
                let page = fs::read_to_string(&to).expect("UTF-8 text");
                assert!(
                    anchors(&page).iter().any(|name| name == anchor),
                    "{}: {target}: there is no such heading",
                    path.display()
                );
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "only {checked} links were found");
}

/// Code, help and pages name a page of `docs/` by its path from the root of the repository.
#[test]
fn every_page_that_is_named_exists() {
    let mut named = 0;
    for (path, text) in sources().into_iter().chain(documents()) {
        let parts = text.match_indices("docs/").filter(|(at, _)| {
            text[..*at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '/')
        });
        for (at, _) in parts {
            let end =
                text[at..].find(|c: char| !c.is_alphanumeric() && !['/', '-', '.'].contains(&c));
            let page = &text[at..end.map_or(text.len(), |end| at + end)];
            let Some((page, _)) = page.split_once(".md") else { continue };
            let page = format!("{page}.md");
            assert!(root().join(&page).exists(), "{}: there is no {page}", path.display());
            named += 1;
        }
    }
    assert!(named > 100, "only {named} were found");
}

#[test]
fn the_readme_takes_a_minute() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the README");
    assert!(readme.lines().count() <= 120, "{} lines", readme.lines().count());
}

/// The index of a folder has each of its pages, and `docs/SUMMARY.md` has all.
#[test]
fn every_page_is_in_an_index() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the summary");
    for (path, _) in documents() {
        let Ok(page) = path.strip_prefix(&docs) else { continue };
        if page != Path::new("SUMMARY.md") {
            assert!(summary.contains(&format!("]({})", page.display())), "{}", path.display());
        }
        let name = page.file_name().expect("a name").to_string_lossy();
        if name != "README.md" && name != "SUMMARY.md" {
            let index = path.with_file_name("README.md");
            let index = fs::read_to_string(&index).expect("the index of the folder");
            assert!(index.contains(&format!("]({name})")), "{}: not in the index", path.display());
        }
    }
}

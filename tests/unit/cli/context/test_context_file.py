"""Tests the files that hold contexts."""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path

import pytest

from klamm.cli.context.context_file import Context, ContextFileError, ContextFiles, context_paths


def test_the_file_is_looked_for_as_kubectl_does(tmp_path: Path) -> None:
    """`$KLAMM_CONFIG` can list several files, as for kubectl; without it, the file is in XDG's configuration folder."""
    assert context_paths({"KLAMM_CONFIG": "/a:/b"}) == [Path("/a"), Path("/b")]
    assert context_paths({"HOME": "/home/amalia"}) == [Path("/home/amalia/.config/klamm/contexts.toml")]
    assert context_paths({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == [Path("/c/klamm/contexts.toml")]
    assert context_paths({"HOME": "/h", "XDG_CONFIG_HOME": "relative"}) == [Path("/h/.config/klamm/contexts.toml")]
    assert context_paths({"HOME": "/h", "KLAMM_CONFIG": ":"}) == [Path("/h/.config/klamm/contexts.toml")]


def test_what_is_put_is_read_back(tmp_path: Path) -> None:
    """A written context is read back unchanged, for all characters in addresses and properties."""
    path = tmp_path / "new" / "contexts.toml"
    context = Context("prod", 'a:1,"b":2', "prod", {"sasl.password": 'geh"eim\\\n\x7fü', "empty": ""})
    assert ContextFiles([path]).put(context) == path
    assert ContextFiles([path]).contexts == {"prod": context}
    tomllib.loads(path.read_text())


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    """After a change, only the owner can read the file, because the file may hold passwords."""
    path = tmp_path / "contexts.toml"
    path.write_text("")
    path.chmod(0o644)
    ContextFiles([path]).put(Context("prod", "a:1"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["contexts.toml"]


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    """The first file that has a context counts. A change goes to the file of the context, and a new context goes to
    the first existing file."""
    missing, first, second = (tmp_path / name for name in ("missing", "first", "second"))
    first.write_text('[contexts.prod]\nbootstrap_server = "first:1"\n')
    second.write_text(
        'current = "dev"\n[contexts.prod]\nbootstrap_server = "second:1"\n[contexts.dev]\nbootstrap_server = "dev:1"\n'
    )
    paths = [missing, first, second]
    files = ContextFiles(paths)
    assert {name: each.bootstrap_server for name, each in files.contexts.items()} == {"dev": "dev:1", "prod": "first:1"}
    assert files.current == "dev"
    assert files.put(Context("dev", "dev:2")) == second
    assert files.put(Context("test", "test:1")) == first
    assert files.use("prod") == second
    assert not missing.exists()
    assert ContextFiles(paths).current == "prod"
    assert ContextFiles(paths).remove("prod") == first
    again = ContextFiles(paths)
    assert (again.current, again.contexts["prod"].bootstrap_server) == (None, "second:1")


def test_the_last_file_is_made_where_none_is(tmp_path: Path) -> None:
    """If no file exists, the last one of the list is created, as kubectl does."""
    paths = [tmp_path / "a", tmp_path / "b"]
    assert ContextFiles(paths).put(Context("prod", "a:1")) == paths[1]


def test_a_link_stays_one(tmp_path: Path) -> None:
    """A symbolic link to a file stays a link, because users link to files in a repository."""
    real, link = tmp_path / "dotfiles.toml", tmp_path / "contexts.toml"
    real.write_text("")
    link.symlink_to(real)
    ContextFiles([link]).put(Context("prod", "a:1"))
    assert link.is_symlink()
    assert "prod" in real.read_text()


def test_changes_at_one_time_are_all_kept(tmp_path: Path) -> None:
    """Concurrent changes are all kept, because each change reads the result of the previous one."""
    path = tmp_path / "contexts.toml"
    files = [ContextFiles([path]) for _ in range(16)]
    threads = [
        threading.Thread(target=each.put, args=(Context(f"context-{number}", "a:1"),))
        for number, each in enumerate(files)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ContextFiles([path]).contexts) == 16


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("current = ", "is no TOML"),
        ("current = 1", "current is no text"),
        ("contexts = 1", "contexts is no table"),
        ("[contexts.a]", "contexts.a has no bootstrap_server"),
        ('[contexts.a]\nbootstrap_servers = "x:1"', "contexts.a has a key that means nothing: bootstrap_servers"),
        ('[contexts.a]\nbootstrap_server = "x:1"\nenvironment = "a.b"', "'a.b' is no name for an environment"),
        ('[contexts.a]\nbootstrap_server = "x:1"\nproperties = { a = 1 }', "contexts.a.properties.a is no text"),
        ('[contexts."a b"]\nbootstrap_server = "x:1"', "'a b' is no name for a context"),
        ("[context.a]", "the file has a key that means nothing: context"),
    ],
)
def test_a_file_that_makes_no_sense_is_told(tmp_path: Path, text: str, complaint: str) -> None:
    """An invalid file is an error that names the file and the wrong place."""
    path = tmp_path / "contexts.toml"
    path.write_text(text)
    with pytest.raises(ContextFileError) as raised:
        ContextFiles([path])
    assert str(path) in str(raised.value)
    assert complaint in str(raised.value)
    assert "mend it or remove it" in str(raised.value)


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    """A folder that can't be written causes a readable error."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ContextFileError, match=r"can't (read|write) .*: Not a directory"):
        ContextFiles([tmp_path / "file" / "contexts.toml"]).put(Context("prod", "a:1"))

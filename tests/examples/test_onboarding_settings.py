"""The example's settings: all mistakes at once, the key never shown, the page of documents complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onboarding.settings import VARIABLES, Secret, SettingsError, from_environment

DOCS = Path(__file__).parents[2] / "docs" / "onboarding.md"


def test_nothing_set_gives_the_defaults_and_no_provider() -> None:
    settings = from_environment({"PATH": "/bin", "ONBOARDING_OUTPUT": " "})

    assert settings.output == Path("onboarding-output")
    assert settings.provider is None
    assert settings.crawl.private_hosts == frozenset()


def test_every_variable_arrives() -> None:
    settings = from_environment(
        {
            "ONBOARDING_OUTPUT": "/srv/sites",
            "ONBOARDING_PUBLIC_URL": "https://shops.example/",
            "ONBOARDING_KEEP_RELEASES": "5",
            "ONBOARDING_USER_AGENT": "Shops/2",
            "ONBOARDING_MAX_PAGES": "7",
            "ONBOARDING_MAX_IMAGES": "0",
            "ONBOARDING_REQUEST_TIMEOUT": "2.5",
            "ONBOARDING_CRAWL_TIME": "30",
            "ONBOARDING_DELAY": "0",
            "ONBOARDING_CONNECT_TO": "*.test=127.0.0.1:8000, closed.test=[::1]:9",
            "ONBOARDING_PRIVATE_HOSTS": "Intranet.example, localhost",
            "ONBOARDING_LLM_URL": "http://127.0.0.1:1/v1",
            "ONBOARDING_LLM_KEY": "k",
            "ONBOARDING_LLM_MODEL": "m",
            "ONBOARDING_LLM_TIMEOUT": "3",
            "ONBOARDING_LLM_PATIENCE": "4",
            "ONBOARDING_LLM_PICTURES": "2",
        }
    )

    crawl, provider = settings.crawl, settings.provider
    assert (settings.output, settings.public_url) == (Path("/srv/sites"), "https://shops.example/")
    assert (settings.keep_releases, crawl.max_pages, crawl.max_images) == (5, 7, 0)
    assert (crawl.user_agent, crawl.request_timeout, crawl.crawl_time, crawl.delay) == (
        "Shops/2",
        2.5,
        30.0,
        0.0,
    )
    assert crawl.connect_to == {"*.test": ("127.0.0.1", 8000), "closed.test": ("::1", 9)}
    assert crawl.private_hosts == {"intranet.example", "localhost"}
    assert provider is not None
    assert (str(provider.url), provider.key.reveal(), provider.model) == ("http://127.0.0.1:1/v1", "k", "m")
    assert (provider.timeout, provider.patience, provider.pictures) == (3.0, 4.0, 2)


def test_all_mistakes_come_in_one_error_and_none_holds_the_key() -> None:
    with pytest.raises(SettingsError) as caught:
        from_environment(
            {
                "ONBOARDING_MAX_PAGES": "0",
                "ONBOARDING_DELAY": "soon",
                "ONBOARDING_CONNECT_TO": "a.test=8000",
                "ONBOARDING_PUBLIC_URL": "ftp://x",
                "ONBOARDING_LLM_URL": "https://me:pw@provider.example/v1",
                "ONBOARDING_LLM_KEY": "sk-secret\u00fc",
                "ONBOARDING_LLM_KEYS": "typed wrong",
            }
        )

    names = [problem.partition(":")[0].removeprefix("ONBOARDING_") for problem in caught.value.problems]
    assert sorted(names) == [
        "CONNECT_TO",
        "DELAY",
        "LLM_KEY",
        "LLM_KEYS",
        "LLM_URL",
        "MAX_PAGES",
        "PUBLIC_URL",
    ]
    assert "sk-secret" not in str(caught.value)
    assert "pw" not in str(caught.value)


def test_the_key_is_read_from_a_file_without_its_line_break(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("sk-from-file\n")

    settings = from_environment(
        {"ONBOARDING_LLM_URL": "http://127.0.0.1:1/v1", "ONBOARDING_LLM_KEY_FILE": str(file)}
    )

    assert settings.provider is not None
    assert settings.provider.key.reveal() == "sk-from-file"
    assert "sk-from-file" not in repr(settings)
    assert "sk-from-file" not in f"{settings.provider.key}"


def test_a_secret_is_taken_out_of_what_others_say() -> None:
    assert Secret("sk-1").redact("bad key sk-1!") == "bad key ***!"
    assert Secret("").redact("bad key") == "bad key"


def test_the_page_of_documents_names_exactly_these_variables() -> None:
    named = set(re.findall(r"^\| `(ONBOARDING_\w+)`", DOCS.read_text(encoding="utf-8"), re.MULTILINE))

    assert named == set(VARIABLES)

"""What a machine sets for other programs does not reach the tests, and what somebody says to the tests does."""

from tests.conftest import forget_the_machine


def test_settings_for_other_programs_are_forgotten_and_those_for_the_tests_are_not() -> None:
    proxies = {"http_proxy": "http://proxy:3128", "ALL_PROXY": "socks5://proxy:1080", "no_proxy": "localhost"}
    others = {"DICE_CE_CACHE": "/mine", "DICE_CE_PACS_PASSWORD": "secret", "AWS_PROFILE": "clinic"}
    kept = {"DICE_CE_DATA": "/frames", "DICE_CE_PEERS": "required", "PATH": "/bin", "HOME": "/home/reader"}
    environment = proxies | others | kept
    forget_the_machine(environment)
    assert environment == kept

"""What Redis or its TLS refuses until a person acts: rights, and certificates. Waiting cannot help."""

from __future__ import annotations

import re

from redis.exceptions import NoPermissionError

_TOO_FEW_RIGHTS = r"The user executing the script can't |ACL failure in script"
"""How Redis 6.2 to 7.0, and newer ones, refuse a command inside a script; as an ordinary error."""

_TLS = {
    r"hostname mismatch|IP address mismatch": "its certificate is for another host: name the host it is made for",
    r"CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted: name the CA's file with ssl_ca_certs",
    r"\[SSL: \w*ALERT_\w*(CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE|ACCESS_DENIED)": (
        "it wants a certificate of yours that it trusts: name one with ssl_certfile and ssl_keyfile"
    ),
    r"\[SSL\] PEM lib|KEY_VALUES_MISMATCH|Error 2 connecting to \S+:\d+\. No such file": (
        "a file does not fit or is not there: see ssl_ca_certs, ssl_certfile and ssl_keyfile"
    ),
    r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE": "it does not speak TLS on this port: name its tls-port",
}


def lacks_rights(error: BaseException) -> bool:
    """Whether this error of ours came of a command that the Redis user may not run."""
    cause = error.__cause__
    return isinstance(cause, NoPermissionError) or bool(re.search(_TOO_FEW_RIGHTS, str(cause)))


def refusal(error: BaseException) -> str | None:
    """What is refused and how to lift it; None for all other errors. Repeats no secret."""
    text = re.split(r"\n|,? with args beginning", str(error))[0][:200]
    if isinstance(error, NoPermissionError) or re.search(_TOO_FEW_RIGHTS, text):
        return f"this Redis user may not do that: widen its ACL ({text})"
    for sign, cure in _TLS.items():
        if re.search(sign, text):
            return f"no TLS with Redis, {cure} in the redis URL ({text})"
    return None

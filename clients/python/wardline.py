# SPDX-License-Identifier: Apache-2.0
"""Watch an agent with Wardline: heartbeats, kill switch, reports, decoy checks.

One file, the standard library only, Python 3.9 or newer. Copy it into your project.

    from wardline import Denied, Monitor

    with Monitor(url, key, 'support-bot-1', 'Support bot', state_file='support-bot.state') as monitor:

        @monitor.guard_tool('file-read')
        def read_file(path: str) -> str:
            with open(path) as file:
                return file.read()

A guarded tool raises `Denied` while the agent is suspended, or when an argument is a decoy. Nothing else in here
raises into the agent, except `ValueError` from the constructor for settings that cannot work.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import base64
import collections
import contextlib
import datetime
import decimal
import enum
import errno
import functools
import hashlib
import hmac
import http.client
import inspect
import ipaddress
import itertools
import json
import logging
import math
import os
import queue
import random
import re
import select
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
import urllib.error
import urllib.parse
import urllib.request
import uuid
import weakref
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Deque,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
    Union,
    cast,
)

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import pwd
    import termios
except ImportError:
    pwd = termios = None  # type: ignore[assignment]

__all__ = [
    'CallDenied',
    'Denied',
    'Health',
    'Monitor',
    'PolicySet',
    'PolicySetFault',
    'SessionMemory',
    'WardlineError',
    'args_hash',
]
__version__ = '0.1.0'

_log = logging.getLogger('wardline')

# Seconds. An instance counts as offline after 90 without a heartbeat, so a late one still comes in time.
_HEARTBEAT = 60.0
_POLL = 30.0
_POLL_WITHOUT_STREAM = 3.0
# The least between two polls that headers of answers cause: anything at the url can send them with every answer.
_ANNOUNCED = 3.0
_METRICS = 300.0
_REQUEST_TIMEOUT = 5.0
# A check stands between the agent and its tool.
_CHECK_TIMEOUT = 2.0
_CHECKS_TIMEOUT = 5.0
# Checks of one call at a time. A usual call has two or three, one after another.
_CHECKS_AT_ONCE = 4
# For a harmless text, after the arguments got no answer.
_PROBE_TIMEOUT = 1.0
# The service sends a comment every 30 seconds: a stream that is silent for so long is dead.
_STREAM_SILENCE = 75.0
_BACKOFF_MIN = 1.0
_BACKOFF_MAX = 30.0
# Only a person can change that a key is refused.
_REFUSED = 60.0
# Nobody keeps an agent from asking for longer than this, whatever Retry-After says.
_RETRY_AFTER_MAX = 300.0
# Reports that come together travel together.
_LINGER = 0.5

_ANSWER_BYTES = 1024 * 1024
# No server sends more than one or two interim answers (100, 103) before the real one.
_INTERIM_ANSWERS = 10
# More requests of one agent at a time only say that none of them is answered.
_REQUESTS_AT_ONCE = 64
_STREAM_LINE_BYTES = 64 * 1024
_STATE_FILE_BYTES = 64 * 1024
# Writing a few hundred bytes takes less.
_LOCK_TIMEOUT = 0.5
# A callback that hangs must not collect notices without end.
_NOTICES = 100
_LOG_FILE_BYTES = 1024 * 1024
_QUEUE_EVENTS = 10_000
_QUEUE_BYTES = 8 * 1024 * 1024
# Kept free of reports of severity info: a flood of tool calls must not push out the report of a breach.
_QUEUE_RESERVE = 500
# Half of what the service takes at once, so that proxies with smaller limits let it pass.
_BATCH_EVENTS = 500
_BATCH_BYTES = 512 * 1024
# Of the 16 KiB that the service takes.
_METADATA_BYTES = 12 * 1024
_PARAMS_BYTES = 4 * 1024
_DESCRIPTION = 1000
_TEXT = 500
_ENTRIES = 50
_DEPTH = 6
# Rotation with overlap takes two, and each key can cost a verification for every message.
_PUBLIC_KEYS = 8
# As many baselines as the service keeps; generated names must not fill the memory.
_METRIC_NAMES = 64

# What the service takes in one check: 64 Ki UTF-16 units of text, 4,096 bytes of a path or command.
_KEY_PART = 60_000
# Longer than any decoy key in any encoding, so that none is cut in two.
_KEY_OVERLAP = 4_096
_SHORTEST_KEY = 20
# What is larger, nested deeper or split into more values is denied: padding must not hide a decoy.
_KEY_TEXT = 4 * 1024 * 1024
_PATH_PART_BYTES = 4_000
_PATH_PARTS = 256
# A name or a short command may be a path by its looks or not (`id_rsa`); a longer text has to look like one.
_SHORT_TEXT = 255
_ARGUMENT_VALUES = 100_000
_ARGUMENT_DEPTH = 32

_SEVERITIES = ('info', 'warning', 'critical', 'breach')
_INSTANCE_ID = re.compile(r'[a-z0-9_-]{1,64}')
_TAG = re.compile(r'[a-z0-9_.:-]{1,40}')
_METRIC_NAME = re.compile(r'[A-Za-z][\w.-]{0,63}', re.ASCII)
_EVENT_TYPE = re.compile(r'[a-z0-9_]{1,100}')

_Tool = TypeVar('_Tool', bound=Callable[..., Any])
_Callback = TypeVar('_Callback', bound=Callable[..., Any])


class WardlineError(Exception):
    """What `on_error` is given: one sentence, without keys, arguments or paths."""


class Denied(Exception):
    """A guarded call was not made. The arguments of the call are not in here.

    `code` is 'suspended'; 'decoy' when an argument holds one; or 'unchecked' when that could not be found out: because
    the service did not answer and the fail mode is 'closed', or, in both fail modes, because of the arguments. Trying
    again is never the answer: `retryable` is False. By a policy a CallDenied is raised. `reason` is for a model: it does not
    say that a decoy was touched, because an attacker who steers the model would learn what to avoid.
    """

    retryable = False

    def __init__(self, code: str, tool: str, reason: str) -> None:
        super().__init__(f'The call of {_one_line(tool)} was denied. {_EXPLANATIONS.get(code, reason)}')
        self.code = code
        self.tool = tool
        self.reason = reason

    def as_dict(self) -> Dict[str, Any]:
        """The denial in the form that a model reads as a tool's result."""
        return {'denied': True, 'reason': self.reason, 'retryable': False}


class CallDenied(Denied):
    """A call that a policy of the operators denies (`code` is 'policy'), or that a person has not approved
    ('approval'). `rule` is the title of the rule, 'flow', or None for the default of a policy; `approval_id` is set if a
    person was asked. `retryable` is True only while the approval is pending: then the same call may be made again."""

    def __init__(
        self, code: str, tool: str, reason: str, rule: Optional[str] = None, approval_id: Optional[str] = None
    ) -> None:
        super().__init__(code, tool, reason)
        self.rule = rule
        self.approval_id = approval_id
        self.retryable = code == 'approval' and reason.endswith('Retry the same call later.')

    def as_dict(self) -> Dict[str, Any]:
        return {'denied': True, 'reason': self.reason, 'retryable': self.retryable}


_EXPLANATIONS = {
    'decoy': 'An argument contains a decoy, which no task needs. The service has recorded the breach: end this task.',
    'unchecked': 'Its arguments could not be compared with the decoys.',
}
_REASONS = {
    'decoy': 'The security monitor of this agent does not allow this call. Do not retry it.',
    'unchecked': 'The security monitor could not check this call, and does not allow unchecked calls.',
}


@dataclass(frozen=True)
class Health:
    """What the monitor knows of itself at one moment."""

    running: bool
    suspended: bool
    reason: Optional[str]
    fail_mode: str
    control_version: int
    """The last kill or resume that was applied; 0 before the first."""
    policy_version: int
    """Of the policies that hold; 0 without any."""
    stream_connected: bool
    seconds_since_contact: Optional[float]
    """Since the last state of the kill switch from the service; None before the first."""
    stale: bool
    """No contact for longer than `stale_after`, or none yet."""
    decoy_checks: bool
    """False while the service says that no decoy could match."""
    unchecked_calls: int
    """Guarded calls whose arguments could not be compared with the decoys, in whole or in part."""
    queued: int
    dropped: Dict[str, int]
    """Reports that were lost, by reason: invalid, queue_full, refused, stopped."""
    callback_errors: int
    problems: Dict[str, str]
    """What does not work right now, by area."""


@dataclass(frozen=True)
class _Control:
    version: int = 0
    suspended: bool = False
    reason: Optional[str] = None


def _is_version(value: object) -> bool:
    """Whether the service can have given this number: it counts exactly, and refuses heartbeats with any other."""
    return type(value) is int and 0 <= value < 2**53


# --- Values ----------------------------------------------------------------------------------------------------------


def _storable(text: str) -> str:
    """The text without what the service refuses: NUL, and surrogates that belong to no character."""
    return text.replace('\0', '\ufffd').encode('utf-8', 'replace').decode('utf-8')


# Controls, separators of lines, and what reverses or hides the text beside it: a terminal or a log may obey them.
_UNSHOWN = ('Cc', 'Cf', 'Zl', 'Zp', 'Co', 'Cs')


def _one_line(value: str, most: int = 200) -> str:
    shown = [' ' if unicodedata.category(one) in _UNSHOWN else one for one in _storable(value[: 4 * most])]
    return re.sub(' +', ' ', ''.join(shown)).strip()[:most].strip()


def _to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(',', ':'), allow_nan=False).encode('utf-8')


def _json_object(text: str | bytes) -> Dict[str, Any]:
    """The object; empty when the text is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_REDACTED = '[redacted]'
_SECRET_PART = (
    r'passw(?:or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|authorization|cookie|credential'
)
_SECRET_NAME = re.compile(rf'{_SECRET_PART}|bearer|jwt|^(?:auth|pass|pwd|pin|otp|sig|signature)$|key$', re.IGNORECASE)
# Beginnings of keys and tokens, by the name of their format.
_KEY_STARTS = {
    'wardline_key': r'wl_',
    'api_key': r'[spr]k[-_]',
    'github_token': r'gh[a-z]_|github_pat_',
    'gitlab_token': r'glpat-',
    'slack_token': r'xox[a-z]-|xapp-',
    'npm_token': r'npm_',
    'huggingface_token': r'hf_',
    'aws_key': r'A[KS]IA',
    'google_key': r'AIza|ya29\.',
    'sendgrid_key': r'SG\.',
    'webhook_secret': r'whsec_',
    'shopify_token': r'shp[a-z]{2}_',
    'digitalocean_token': r'dop_v1_',
    'pypi_token': r'pypi-',
    'jwt': r'eyJ',
}
# Each is linear in the text: every repetition is bounded, or begins at a mark and cannot begin again inside itself.
_SECRETS = [
    (secret, re.compile(pattern), by)
    for secret, pattern, by in [
        ('private_key', r'-----BEGIN [^-\n]{0,60}PRIVATE KEY-----(?s:.*?)(?:-----END [^-\n]{0,60}-----|\Z)', _REDACTED),
        ('cookie', r'(?i)\b((?:set-)?cookie["\']?\s{0,5}[:=]\s{0,5})[^\n]+', rf'\1{_REDACTED}'),
        ('authorization', r'(?i)\b(bearer|basic)\s{1,5}[\w.~+/=-]{8,}', rf'\1 {_REDACTED}'),
        ('url_password', r'(?i)\b([a-z][a-z0-9+.-]{1,20}://)[^\s/@:]{0,256}:[^\s/@]{1,256}@', rf'\1{_REDACTED}@'),
        ('key', rf'(?<![A-Za-z0-9])(?:{"|".join(_KEY_STARTS.values())})[\w.~+/=-]{{8,}}', _REDACTED),
        (
            'named_secret',
            rf'(?i)((?:{_SECRET_PART})[\w-]{{0,20}}["\']?\s{{0,5}}[:=]\s{{0,5}})(?:"[^"]*"?|\'[^\']*\'?|[^\s,;&"\']+)',
            rf'\1{_REDACTED}',
        ),
        ('named_secret', r'(?i)([?&](?:key|sig|signature|auth|code)=)[^\s&#"\']+', rf'\1{_REDACTED}'),
        (
            'named_secret',
            r'(?i)((?<!\S)--?(?:password|passwd|pass|secret|token|api-?key|key|auth)[\w-]{0,20}(?:\s{1,5}|=))[^\s"\']+',
            rf'\1{_REDACTED}',
        ),
    ]
]
# Formats that are unmistakable without a digit in what follows their mark: code is full of `token: string`.
_UNMISTAKABLE = ('private_key', 'url_password')
_HAS_DIGIT = re.compile(r'(?=.{8})[^\n]*[0-9]')
_LONG_RUN = re.compile(r'[A-Za-z0-9+/=_-]{18,}')
_UUIDS = re.compile(r'(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])', re.IGNORECASE)
# Ids of model services and frameworks: they look random, and are no secrets.
_PUBLIC_ID = re.compile(
    r'(?:thread|msg|run|step|call|(?:srv)?toolu|resp|req|chatcmpl|asst|batch|file|conv|item|gen|trace|span)'
    r'[_-][A-Za-z0-9_-]+'
)
# Names whose value is an id, such as sessionId, thread_id or uuid.
_ID_NAME = re.compile(r'^(?:id|uuid)$|[_-](?:id|uuid)$|[a-z0-9](?:Id|ID|Uuid|UUID)$')


def _looks_random(run: str) -> bool:
    """Random letters and digits change between upper case, lower case and digits at every second place; words seldom
    do, and an initial capital does not count."""
    text = re.sub(r'[^A-Za-z0-9]', '', run)
    if re.fullmatch(r'[0-9a-fA-F]{32,}', text):
        return True
    kinds = re.sub('A(?=a)', 'a', ''.join('0' if sign.isdigit() else 'A' if sign.isupper() else 'a' for sign in text))
    changes = sum(left != right for left, right in zip(kinds, kinds[1:]))
    return len(text) >= 18 and changes / len(text) >= (0.2 if len(text) < 32 else 0.15)


def _without_secrets(text: str, most: int) -> str:
    """The text without what looks like a key, a token or a password, cut after so many characters."""
    searched = text[: max(4096, most)]
    if len(searched) < len(text):
        # What stands at the cut may be the first half of a secret, which nothing would recognise.
        searched = re.sub(r'\S{1,512}\Z', '', searched)
    clean = searched
    for _secret, pattern, by in _SECRETS:
        clean = pattern.sub(by, clean)

    def run(match: 're.Match[str]') -> str:
        found = match.group()
        is_secret = not _PUBLIC_ID.fullmatch(found) and _looks_random(_UUIDS.sub('', found))
        return _REDACTED if is_secret else found

    clean = _storable(_LONG_RUN.sub(run, clean))
    return clean if len(clean) <= most and len(searched) == len(text) else f'{clean[: most - 1]}…'


def _kept_id(text: str, most: int = 200) -> str:
    """An id as it is, however random it looks: if it were redacted, all sessions would be one. What has the format of a
    credential is hashed, and what is too long ends with a hash: equal ids stay equal, different ones different."""
    digest = hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]
    if any(pattern.search(text[: 4 * most]) for _secret, pattern, _by in _SECRETS):
        return f'sha256-{digest}'
    return _storable(text) if len(text) <= most else f'{_storable(text[: most - 33])}…{digest}'


class _Redaction:
    """Copies values as plain JSON of at most so many bytes, without what looks like a secret, and with what is deep,
    long or no data replaced by a word for it."""

    def __init__(self, max_bytes: int) -> None:
        # Room for the brackets and marks with which containers that were begun are ended.
        self._left = max_bytes - 512

    def of(self, value: Any, depth: int = _DEPTH) -> Any:
        try:
            if isinstance(value, Mapping) or _is_model(value):
                return self._entries(value if isinstance(value, Mapping) else value.model_dump(), depth)
            if isinstance(value, (list, tuple, set, frozenset)):
                return self._items(value, depth)
            plain = _plain(value)
            return self._keep(plain)
        except Exception:  # noqa: BLE001 - values of the agent may raise at any touch
            return '[unreadable]'

    def _keep(self, plain: Any) -> Any:
        size = len(_to_json(plain))
        if size > self._left:
            return '[cut]'
        self._left -= size
        return plain

    def _entries(self, values: Mapping[Any, Any], depth: int) -> Any:
        if depth == 0:
            return '[deep]'
        shown: Dict[str, Any] = {}
        for name, value in values.items():
            label = _without_secrets(name if isinstance(name, str) else str(_plain(name)), 100)
            self._left -= len(_to_json(label)) + 2
            if len(shown) == _ENTRIES or self._left <= 0:
                shown['…'] = '[more]'
                break
            if label != '__proto__':
                if _SECRET_NAME.search(label) and value is not None and not isinstance(value, bool):
                    shown[label] = _REDACTED
                elif isinstance(value, str) and _ID_NAME.search(label):
                    shown[label] = self._keep(_kept_id(value))
                else:
                    shown[label] = self.of(value, depth - 1)
        return shown

    def _items(self, values: Any, depth: int) -> Any:
        if depth == 0:
            return '[deep]'
        shown: List[Any] = []
        for value in values:
            if len(shown) == _ENTRIES or self._left <= 0:
                return [*shown, f'[{len(values) - len(shown)} more]']
            self._left -= 1
            shown.append(self.of(value, depth - 1))
        return shown


def _plain(value: Any) -> Any:
    """A single value; what is no data becomes the name of its type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (str, os.PathLike, datetime.date, uuid.UUID)):
        return _without_secrets(str(value), _TEXT)
    if isinstance(value, int):
        return int(value) if abs(value) <= 2**53 else f'[integer of {value.bit_length()} bits]'
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f'[{len(value)} bytes]'
    return f'[{type(value).__name__}]'


def _is_model(value: Any) -> bool:
    """A model of pydantic."""
    return not isinstance(value, type) and callable(getattr(type(value), 'model_dump', None))


# Of a longer text only this much is hashed and searched.
_RESULT_LENGTH = 256 * 1024
_RESULT_VALUES = 10_000
_RESULT_DEPTH = 8
_RESULT_TEXT = 1_000
_RESULT_TEXT_BYTES = 3 * 1024
# At most this many places of one pattern are looked at.
_SECRET_PLACES = 1_000


def _secret_formats(text: str) -> List[str]:
    """Names of the formats of secrets in a text, never the secrets."""
    found = set()
    for secret, pattern, _by in _SECRETS:
        for match in itertools.islice(pattern.finditer(text), _SECRET_PLACES):
            value = match[0][len(match[1]) if pattern.groups and match[1] else 0 :]
            if secret not in _UNMISTAKABLE and not _HAS_DIGIT.match(value):
                continue
            if secret != 'key':
                found.add(secret)
                break
            found.add(next(name for name, start in _KEY_STARTS.items() if re.match(start, value)))
    return sorted(found)


# Of an output only this much is compared with decoys. A text with more of what may be a key is data, such as checksums.
_OUTPUT_KEYS = 8_000
# A longer run is data. An SSH key on one line has 400 characters.
_OUTPUT_RUN = 1_000
# More outputs that come while these wait are not compared.
_OUTPUTS_WAITING = 20
# Outputs count as events: they must not use up the quota of the reports.
_OUTPUT_PAUSE = 0.2
_KEY_RUN = re.compile(r'[\w.~+/=-]{18,}', re.ASCII)
_NO_KEY_SIGN = re.compile(r'[^\t\r\n -~]')


def _keys_in(text: str) -> str:
    """What may be a key in a text, a line for each: private keys, what begins like a key, random runs."""
    found: Dict[str, None] = {}
    length = 0

    def add(match: str) -> None:
        nonlocal length
        # The service refuses some characters, and no key has them.
        key = _NO_KEY_SIGN.sub('', match[: _OUTPUT_KEYS // 2])
        if key not in found and length + len(key) < _OUTPUT_KEYS:
            found[key] = None
            length += len(key) + 1

    for secret, pattern, _by in _SECRETS:
        if secret in ('private_key', 'key'):
            for match in pattern.finditer(text):
                add(match[0])
    for match in _KEY_RUN.finditer(text):
        run = match[0]
        if len(run) <= _OUTPUT_RUN and any(map(_looks_random, [run, *re.split('[.~/=]', run)])):
            add(run)
    return '\n'.join(found)


class _ResultTexts:
    """The texts in a result, in their order."""

    def __init__(self, result: Any) -> None:
        self.found: List[str] = []
        self.length = 0
        self.is_cut = False
        self._values = 0
        try:
            self._visit(result, 0)
        except Exception:  # noqa: BLE001 - values of the agent may raise at any touch
            self.is_cut = True

    def _visit(self, value: Any, depth: int) -> None:
        self._values += 1
        if self._values > _RESULT_VALUES or depth > _RESULT_DEPTH:
            self.is_cut = True
        elif isinstance(value, str):
            self._add(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._add(str(value))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self._add(bytes(value[:_RESULT_LENGTH]).decode('utf-8', 'replace'))
            self.is_cut = self.is_cut or len(value) > _RESULT_LENGTH
        elif isinstance(value, Mapping) or _is_model(value):
            for item in (value if isinstance(value, Mapping) else value.model_dump()).values():
                self._visit_next(item, depth)
        elif isinstance(value, (list, tuple)):
            for item in value[:_RESULT_VALUES]:
                self._visit_next(item, depth)

    def _visit_next(self, item: Any, depth: int) -> None:
        if self._values <= _RESULT_VALUES:
            self._visit(item, depth + 1)

    def _add(self, text: str) -> None:
        if self.length < _RESULT_LENGTH:
            self.found.append(text[: _RESULT_LENGTH - self.length])
        self.length += len(text)
        self.is_cut = self.is_cut or self.length > _RESULT_LENGTH


class _Results:
    """Describes results of tools and answers of models. Hashes are keyed by the key of the agent, so that a reader of events cannot guess a
    short result, such as a code of four digits, by hashing all of them."""

    def __init__(self, key: str, with_text: bool) -> None:
        self._hash_key = hashlib.sha256(f'wardline-result-v1\n{key}'.encode('utf-8')).digest()
        self._with_text = with_text

    def of(self, result: Any) -> Optional[Tuple[Dict[str, Any], str]]:
        """The description, and what in the result may be a key."""
        texts = _ResultTexts(result)
        if not texts.found:
            return None
        text = '\n'.join(texts.found)
        digest = hmac.new(self._hash_key, text.encode('utf-8', 'replace'), hashlib.sha256).hexdigest()
        described: Dict[str, Any] = {'length': texts.length, 'hash': digest[:32]}
        secrets = _secret_formats(text)
        if secrets:
            described['secrets'] = secrets
        if texts.is_cut:
            described['cut'] = True
        if self._with_text:
            shown = _without_secrets(text, _RESULT_TEXT)
            is_short = len(json.dumps(shown, ensure_ascii=False).encode('utf-8')) <= _RESULT_TEXT_BYTES
            described['text'] = shown if is_short else _without_secrets(text, _RESULT_TEXT // 4)
        return described, _keys_in(text)


# begin tool table: written by `npm run docs` from packages/sdk/src/tool-table.ts
_TOOL_TABLE: Dict[str, Dict[str, str]] = {
    'tools': {
        'read': (
            'cat head tail bashoutput commandstatus fetchrules lsp pgquery executesql runquery '
            'runsqlquery notionfetch postsearch postdatabasequery gitbranch conversationsreplies '
            'conversationsunreads echo type info hget hgetall hexists lrange llen smembers zrange '
            'xrange dbsize scankeys'
        ),
        'write': (
            'multiedit reapply searchreplace postpage savememory hset hdel lpush rpush lpop rpop lrem '
            'del expire sadd srem zadd zrem xadd xdel croncreate crondelete'
        ),
        'execute': 'writestdin createandruntask',
        'request': (
            'webfetch websearch websearchpreview webrun searchweb googlesearch bravesearch tavilysearch '
            'duckduckgosearch exasearch newpage navigatepage gitpull gitclone browsernavigate'
        ),
        'send': 'sharelink artifact',
        'other': (
            'task agent skill todowrite todoread writetodos managetodolist taskcreate taskget tasklist '
            'taskoutput taskstop taskupdate updateplan updatetopic enterplanmode exitplanmode '
            'askuserquestion askuser requestuserinput slashcommand killshell killbash toolsearch '
            'sequentialthinking spawnagent sendinput runsubagent newtask computer computeruse '
            'computerusepreview'
        ),
        'method': (
            'strreplaceeditor strreplacebasededittool texteditor texteditorcodeexecution memory '
            'copilotmemory managek8sresource'
        ),
    },
    'verbs': {
        'read': (
            'read get list ls search find view open load show query lookup describe stat count glob '
            'grep check retrieve inspect explain aggregate analyze validate verify discover whoami'
        ),
        'write': (
            'write create edit update upsert delete remove move rename save put patch insert append set '
            'add copy modify mkdir truncate drop replace reserve cancel reschedule apply assign '
            'unassign attach detach merge rebase reset restore approve archive enable disable install '
            'uninstall scale mark resolve dismiss transition pause promote import migrate scaffold'
        ),
        'execute': 'exec execute run eval evaluate spawn retry trigger invoke',
        'request': 'fetch browse navigate curl wget crawl scrape download click fill hover',
        'send': (
            'send post reply notify publish upload share invite forward push tweet pay transfer submit '
            'broadcast'
        ),
    },
    'nouns': {
        'read': (
            'log logs status diff details summary schema history stats metadata tree contents snapshot '
            'screenshot docs select'
        ),
        'write': (
            'book schedule exchange return draft commit checkout deploy branch tag label link store '
            'star fork pin clone'
        ),
        'execute': 'shell bash terminal command cmd sandbox script powershell python repl code',
        'request': 'browser puppeteer playwright web website url http https request requests api',
        'send': 'mail email message sms comment',
    },
    'sending': {
        'verbs': 'write create edit update save add',
        'objects': (
            'comment note reply message mail email invitation issue ticket request review discussion '
            'thread gist body webhook refund payout charge payment'
        ),
    },
    'arguments': {
        'path': (
            'path paths file files filepath filepaths filename filenames directory directories dir '
            'folder folders notebook workspace dirpath repopath'
        ),
        'maybePath': (
            'source src destination dest target root input output from cwd workdir uri image attachment '
            'attachments include'
        ),
        'address': 'url urls uri uris href link links endpoint webhook origin remote website site page server',
        'host': 'host hosts hostname hostnames domain domains ip ipaddress',
        'mail': (
            'to cc bcc recipient recipients torecipients ccrecipients bccrecipients email emails '
            'emailaddress mailto participants attendees address'
        ),
        'command': 'command commands cmd cmdline commandline script argv',
        'code': 'code program input chars function expression',
        'patch': 'patch diff input',
        'prompt': 'prompt',
        'statement': 'sql query statement statements',
        'method': 'command action method operation',
    },
    'programs': {
        'starting': (
            'sudo doas env nohup time timeout nice stdbuf xargs exec command watch setsid busybox bash '
            'sh zsh dash ksh eval powershell pwsh cmd if then elif else while until do ! {'
        ),
        'files': (
            'cat less more head tail tac nl cp mv rm ln tar zip gzip base64 xxd od strings grep egrep '
            'rg sed awk cut sort source . nano vim vi code tee touch chmod chown shred dd scp rsync '
            'open type get-content gc gpg openssl ssh-add diff wc file stat'
        ),
        'network': (
            'curl wget http https xh nc ncat netcat socat ssh scp sftp rsync ftp tftp telnet ping dig '
            'nslookup host openssl aria2c lynx invoke-webrequest iwr invoke-restmethod irm nmap '
            'traceroute mail mailx mutt sendmail msmtp swaks'
        ),
        'reaching': 'curl wget nc ncat netcat ssh telnet ftp ping nslookup lynx nmap traceroute',
        'copying': 'scp rsync sftp',
        'fileOptions': (
            '-o -O -T -i -K -c -b -E -F --output --upload-file --config --cookie --cookie-jar --cert '
            '--key --cacert --post-file --body-file -InFile -OutFile'
        ),
        'flags': 'curl-i curl-O',
    },
    'paths': {
        'notable': (
            '.env .ssh .aws .gnupg .kube .docker .netrc .pgpass .npmrc .pypirc .git-credentials '
            '.bash_history .claude .cursor .codex id_ credential secret passw shadow token private .pem '
            '.key .p12 .pfx keystore wallet crontab authorized_keys'
        ),
    },
}
# end tool table
_KINDS: Dict[str, FrozenSet[str]] = {
    kind: frozenset(names.split(' ')) for kind, names in _TOOL_TABLE['arguments'].items()
}
_TOOL_ACTIONS, _VERB_ACTIONS, _NOUN_ACTIONS = (
    {name: action for action, names in _TOOL_TABLE[part].items() for name in names.split(' ')}
    for part in ('tools', 'verbs', 'nouns')
)
_SENT, _SENDING_VERBS = (frozenset(_TOOL_TABLE['sending'][part].split(' ')) for part in ('objects', 'verbs'))
_KINDS_BY_LAST_WORD = ('path', 'address', 'host', 'command')
_METHOD_NAMES = _TOOL_TABLE['arguments']['method'].split(' ')
_NOTABLE = tuple(_TOOL_TABLE['paths']['notable'].split(' '))
(
    _STARTING_PROGRAMS,
    _FILE_PROGRAMS,
    _NETWORK_PROGRAMS,
    _REACHING_PROGRAMS,
    _COPYING_PROGRAMS,
    _FILE_OPTIONS,
    _FLAGS,
) = (
    frozenset(_TOOL_TABLE['programs'][part].split(' '))
    for part in ('starting', 'files', 'network', 'reaching', 'copying', 'fileOptions', 'flags')
)
_CALL_VALUES = 1_000
_CALL_DEPTH = 8
_CALL_WORDS = 5_000
_CALL_ITEMS = 5_000
_CALL_TEXT = 64 * 1024
_CALL_CHARACTERS = 4 * _CALL_TEXT
_CALL_NAME = 200
_CALL_PATH = 4_096
_CALL_FOUND = 200
# Many paths must not push out a host.
_PATHS_BYTES = 3 * 1024
_HOSTS_BYTES = 2 * 1024
# Of a longer path the end is reported, which says more.
_SHOWN_PATH = 400
_COMMAND = 1000
_BLANK = re.compile(r'[ \t\r\n\f\v]')
_WHOLE_PATH = re.compile(r'/[^/]+/|~/|\.\.?/|[A-Za-z]:[\\/]|\\\\')
_PATH_SIGN = re.compile(r'[/\\]|^~|^\.[A-Za-z]|[A-Za-z0-9_]\.[A-Za-z][A-Za-z0-9]{0,11}\Z')
_HOST_NAME = re.compile(
    r'(?:(?:[a-z0-9_-]+\.)+[a-z0-9-]*[a-z][a-z0-9-]*|(?:[0-9]{1,3}\.){3}[0-9]{1,3}|localhost)\Z'
)
# What stands before a value in a word: `--data=`, `NAME=`, or an option such as -d right before a path.
_BEFORE_VALUE = re.compile(r'--?[A-Za-z0-9_-]+=|[A-Za-z_][A-Za-z0-9_]*=|-[A-Za-z](?=[@./~])')
_FEW_DIGITS = re.compile(r'[0-9]{1,7}\Z')
_BEFORE_SECRET = re.compile(
    r'(?:-u|--user|bearer|basic|[^\n]*(?:authorization|cookie|token|key|secret):)\Z', re.IGNORECASE
)
_ADDRESS = re.compile(r'([A-Za-z][A-Za-z0-9+.-]*)://([^/?#\\]*)(.*)', re.DOTALL)
_NO_HOST = re.compile(r'[\x00- "\'<>\[\]\\^`{|}$()*,;!]')
_AUTHORITY = re.compile(r'(?:\[([0-9a-f:.]+)\](?::[0-9]*)?|([^:]*)(?::[0-9]*)?)\Z')
_PATCHED = re.compile(r'^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/|--- a/)([^\t\r\n]+)', re.MULTILINE)
_ABOUT_FILES = re.compile(r'file|path|dir|folder|^(?:read|write|edit|cat|ls)\Z', re.IGNORECASE)


_METHOD = re.compile(r'[A-Za-z][A-Za-z0-9_-]{0,60}\Z')
_ADDRESS_IN_TEXT = re.compile(r'(?<![A-Za-z0-9_])https?://[^ \t\r\n"\'<>()\[\]]+', re.IGNORECASE | re.ASCII)
_WRITING_STATEMENT = re.compile(
    r'(?<![A-Za-z0-9_])(?:insert[ \t\r\n]+into|update[ \t\r\n]+[^ \t\r\n]+[ \t\r\n]+set|delete[ \t\r\n]+from'
    r'|replace[ \t\r\n]+into|merge[ \t\r\n]+into|truncate|grant|revoke'
    r'|(?:drop|alter|create)[ \t\r\n]+(?:or[ \t\r\n]+replace[ \t\r\n]+)?(?:table|view|index|schema|database|user|role'
    r'|function|procedure|trigger|extension|policy|type|sequence))(?![A-Za-z0-9_])',
    re.IGNORECASE | re.ASCII,
)
# Short options of the programs that reach hosts, after which no value follows.
_PLAIN_FLAGS = re.compile(r'-[046#ACGIJLNRSTYafgjknqstvxy]+\Z')
_ONE_LABEL = re.compile(r'[A-Za-z][A-Za-z0-9_-]*(?:/|\Z)')
_VARIABLE = re.compile(
    r'(?:^|[ \t\r\n;&|(])([A-Za-z_][A-Za-z0-9_]*)='
    r'(?:"([^"$`\\]*)"|\'([^\']*)\'|([^ \t\r\n;&|()<>"\'$`]+))'
    r'|\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))'
)


def _name_words(name: str) -> List[str]:
    """The words of a name: `readFile`, `read-file` and `read_file` have the same."""
    return [word for word in re.split(r'[^a-z0-9]+', re.sub(r'([a-z0-9])([A-Z])', r'\1 \2', name).lower()) if word]


def _kinds_of(name: str) -> FrozenSet[str]:
    """What arguments with this name hold."""
    words = _name_words(name)
    whole, last = ''.join(words), words[-1] if words else ''
    return frozenset(
        kind
        for kind, names in _KINDS.items()
        if whole in names or (kind in _KINDS_BY_LAST_WORD and last in names)
    )


def _action_of_verb(words: Sequence[str]) -> Optional[str]:
    verb = next((word for word in words if word in _VERB_ACTIONS), '')
    action = _VERB_ACTIONS.get(verb)
    if action != 'write' or verb not in _SENDING_VERBS or 'draft' in words:
        return action
    thing = next((word for word in reversed(words) if word not in _VERB_ACTIONS), '')
    return 'send' if thing in _SENT or re.sub(r's\Z', '', thing) in _SENT else action


def _named_tool(tool: str, method: Optional[str]) -> Tuple[Optional[str], bool]:
    """What the name of a tool says: the action, and whether an argument holds the name of a method."""
    words = _name_words(re.sub(r'^mcp__.*?__', '', tool, count=1, flags=re.DOTALL))
    ends = [''.join(words[at:]) for at in range(len(words)) if at == 0 or at < len(words) - 1]
    row = _TOOL_ACTIONS.get(next((end for end in ends if end in _TOOL_ACTIONS), ''))
    if row not in (None, 'method'):
        return row, False
    said = None
    if row is None:
        noun = next((word for word in words if word in _NOUN_ACTIONS), '')
        said = _action_of_verb(words) or _NOUN_ACTIONS.get(noun)
    return said or (None if method is None else _action_of_verb(_name_words(method))), row == 'method'


def _method_of(args: Any) -> Optional[str]:
    """The first argument that can be the name of a method, such as `command: 'view'`."""
    if _is_model(args):
        args = args.model_dump()
    values = [args.get(name) for name in _METHOD_NAMES] if isinstance(args, Mapping) else []
    return next((value for value in values if isinstance(value, str) and _METHOD.match(value)), None)


def _with_variables(text: str) -> str:
    """The command with the values of variables in their places that it sets to a plain text: `H=a.example; curl $H`."""
    values: Dict[str, str] = {}
    room = _CALL_TEXT

    def put(match: 're.Match[str]') -> str:
        nonlocal room
        name, double, single, bare, braced, plain = match.groups()
        value = values.get(braced or plain or '')
        # A secret in its place would be a word like others.
        if name and not _SECRET_NAME.search(name):
            values[name] = next((one for one in (double, single, bare) if one is not None), '')
        if value is None or len(value) > room:
            return match.group()
        room -= len(value)
        return value

    return _VARIABLE.sub(put, text)


def _main_argument(action: Optional[str], tool: str) -> str:
    """Known name for an argument without one, where the tool has no other."""
    if action in ('read', 'write'):
        return 'path' if _ABOUT_FILES.search(tool) else 'source'
    return {'execute': 'command', 'request': 'url', 'send': 'to'}.get(action or '', '')


def _address_number(part: str) -> float:
    if re.fullmatch(r'0x[0-9a-f]*', part):
        return int(part[2:] or '0', 16)
    if re.fullmatch(r'0[0-7]+', part):
        return int(part, 8)
    return int(part) if re.fullmatch(r'[0-9]{1,30}', part) else math.nan


def _plain_address(host: str) -> str:
    """The usual form of an IPv4 address that is written in another one, such as 2852039166 or 0xa9.254.43518."""
    parts = host.split('.')
    if len(parts) > 4:
        return host
    *numbers, last = (_address_number(part) for part in parts)
    rest = 4 - len(numbers)
    if not all(number < 256 for number in numbers) or not last < 256**rest:
        return host
    return '.'.join(str(number) for number in [*numbers, *int(last).to_bytes(rest, 'big')])


def _host_of(authority: str) -> Optional[str]:
    """The host of `user@host:port`, as a browser would reach it."""
    if len(authority) > 1_000:
        return None
    host = re.sub(r'%([0-7][0-9A-Fa-f])', lambda code: chr(int(code[1], 16)), authority[authority.rfind('@') + 1 :])
    match = _AUTHORITY.match(unicodedata.normalize('NFKC', host).lower().replace('\u3002', '.'))
    if match is None:
        return None
    if match[1] is not None:
        return str(match[1])
    bare = match[2].rstrip('.')
    return None if not bare or len(bare) > 253 or _NO_HOST.search(bare) else _plain_address(bare)


class _CallReader:
    """Reads the arguments of a call: what it does, and with which files and hosts."""

    def __init__(self, tool: str, method: Optional[str]) -> None:
        self._named, self._is_by_method = _named_tool(tool, method)
        self._main = _kinds_of(_main_argument(self._named, tool))
        self._notable: Dict[str, None] = {}
        self._paths: Dict[str, None] = {}
        self.hosts: Dict[str, None] = {}
        self.commands: List[str] = []
        self.is_cut = False
        self._has_address = False
        self._writes = False
        self._values = 0
        self._words = 0
        # Hosts found so far in commands, also known ones.
        self._reached = 0
        self._characters = _CALL_CHARACTERS

    @property
    def paths(self) -> List[str]:
        """Those that may hold secrets first."""
        return [*self._notable, *self._paths]

    def action(self) -> str:
        if self._named is None and self.commands:
            return 'execute'
        if self._writes and self._named in (None, 'read'):
            return 'write'
        if self._named in (None, 'read') and self._has_address and not self.paths:
            return 'request'
        return self._named or 'other'

    def read(self, args: Any) -> None:
        is_list = isinstance(args, (list, tuple))
        first, *others = args[:_CALL_VALUES] or [None] if is_list else [args]
        if is_list and len(args) > _CALL_VALUES:
            self.is_cut = True
        self._visit(first, self._main if isinstance(first, str) else frozenset(), 0)
        for other in others:
            self._visit(other, frozenset(), 0)

    def _visit(self, value: Any, kinds: FrozenSet[str], depth: int) -> None:
        self._values += 1
        if self._values > _CALL_VALUES or depth > _CALL_DEPTH:
            self.is_cut = True
            return
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, str):
            text = value[:_CALL_TEXT]
            self._characters -= len(text)
            if len(value) > _CALL_TEXT or self._characters < 0:
                self.is_cut = True
            if self._characters >= 0:
                self._text(text, kinds)
        elif isinstance(value, (list, tuple)):
            words = value[:_CALL_ITEMS]
            if self._is_command(kinds) and all(isinstance(word, str) for word in words):
                self._visit(_command_line(words), kinds, depth + 1)
                return
            if len(value) > _CALL_VALUES:
                self.is_cut = True
            for item in value[:_CALL_VALUES]:
                self._visit(item, kinds, depth + 1)
        elif isinstance(value, Mapping) or _is_model(value):
            entries = value if isinstance(value, Mapping) else value.model_dump()
            is_only = depth == 0 and len(entries) == 1
            for key, item in entries.items():
                if self._values > _CALL_VALUES:
                    return
                label = str(key)[:100]
                # Of secrets only what is a path with its folder is read, such as `private_key: '~/.ssh/id_rsa'`.
                if _SECRET_NAME.search(label):
                    if isinstance(item, (str, os.PathLike)):
                        self._visit(item, frozenset(), depth + 1)
                    continue
                known = _kinds_of(label)
                is_main = is_only and isinstance(item, str) and not known
                self._visit(item, self._main if is_main else known, depth + 1)

    def _is_command(self, kinds: FrozenSet[str]) -> bool:
        if 'command' in kinds:
            return not self._is_by_method
        return 'code' in kinds and self._named == 'execute'

    def _text(self, text: str, kinds: FrozenSet[str]) -> None:
        if self._is_command(kinds):
            self._command(text)
            return
        if 'patch' in kinds:
            for path in _PATCHED.findall(text):
                self._path(path)
        if 'statement' in kinds and _WRITING_STATEMENT.search(text):
            self._writes = True
        if 'prompt' in kinds and self._named == 'request':
            for address in _ADDRESS_IN_TEXT.findall(text):
                if self.is_cut:
                    break
                self._address(address)
        value = text.strip()
        if _BLANK.search(value) and 'path' not in kinds and 'mail' not in kinds:
            return
        if not value or self._address(value):
            return
        if 'path' in kinds or ('maybePath' in kinds and _PATH_SIGN.search(value)):
            self._path(value)
        elif 'address' in kinds:
            self._address_without_scheme(value)
        elif 'host' in kinds:
            self._host(value)
        elif 'mail' in kinds:
            if self._named != 'read':
                self._mail(value)
        elif _WHOLE_PATH.match(value):
            self._path(value)

    def _address_without_scheme(self, text: str) -> None:
        """`files.example/x` and `//files/x`, but not the airport or the branch that is called `origin`."""
        authority = re.sub(r'[/?#\\].*', '', re.sub(r'^//', '', text), flags=re.DOTALL)
        remote = re.match(r'[^@:/\\]+@([^@:/\\]+):(?![0-9])', authority)
        named = remote[1] if remote else authority
        host = None if _FEW_DIGITS.match(authority) else _host_of(named)
        if host is None:
            return
        is_host = text.startswith('//') or _HOST_NAME.match(host) or re.search(r':[0-9]{1,5}\Z', authority)
        if is_host or ':' in host:
            self._host(named)
            self._has_address = True

    def _address(self, text: str) -> bool:
        match = _ADDRESS.match(text)
        if match is None:
            return False
        if match[1].lower() == 'file':
            self._path(re.sub(r'^/([A-Za-z]:)', r'\1', match[3]))
        else:
            self._host(match[2])
            self._has_address = True
        return True

    def _mail(self, text: str) -> None:
        for part in re.split(r'[,;]', text)[:_CALL_FOUND]:
            if '@' in part:
                self._host(re.sub(r'>.*', '', part[part.rfind('@') + 1 :], flags=re.DOTALL).strip())

    def _path(self, text: str) -> None:
        path = text.split('\n', 1)[0].strip()
        if not path:
            return
        lower = path.lower()
        if len(path) > _CALL_PATH:
            self.is_cut = True
        else:
            self._add(self._notable if any(part in lower for part in _NOTABLE) else self._paths, path)
        # A folder that another machine shares: \\\\host\\share.
        shared = re.match(r'\\\\([^\\/?]+)[\\/]', path)
        if shared is not None:
            self._host(shared[1])

    def _host(self, authority: str) -> None:
        host = _host_of(authority)
        if host is not None:
            self._reached += 1
            self._add(self.hosts, host)

    def _add(self, found: Dict[str, None], text: str) -> None:
        if len(found) < _CALL_FOUND:
            found[text] = None
        elif text not in found:
            self.is_cut = True

    def _command(self, text: str) -> None:
        self.commands.append(text)
        # A line goes on after a backslash, in PowerShell after a backtick.
        lines = _with_variables(re.sub(r'[\\`]\r?\n', ' ', text))
        # A command in the arguments of another is read after it, so that the rest of these stay arguments.
        command = re.compile(r'\$\(([^()]*)\)|`([^`]*)`')
        inner = [one or other for one, other in command.findall(lines)]
        for simple in re.split(r'[;|&\r\n()`]+', '\n'.join([command.sub('_', lines), *inner])):
            # A file follows < and >, but neither <<, => nor ->.
            marked = re.sub(r'<{2,3}-?|[=-]>|[<>]', lambda sign: ' < ' if len(sign[0]) == 1 else ' ', simple)
            self._simple_command(re.split(r'[ \t\f\v"\']+', marked))
            if self._words > _CALL_WORDS:
                self.is_cut = True
                return

    def _simple_command(self, parts: Sequence[str]) -> None:
        """A program with its arguments, up to the limit of words."""
        is_program, is_started, program, before = True, False, _Program(''), ''
        # Place after the program, and its first and last argument that can be a host of one label.
        after, first, last, reached = 0, '', '', self._reached
        for at, part in enumerate(parts):
            self._words += 1
            if self._words > _CALL_WORDS:
                return
            match = _BEFORE_VALUE.match(part)
            option = match[0] if match else ''
            value = part[len(option) :]
            word = value[1:] if value.startswith('@') else value
            is_program = is_program or part == '-exec'
            if word and word != '<' and not word.startswith('-'):
                name = re.sub(r'\.exe\Z', '', re.sub(r'^.*[/\\]', '', word.lower(), flags=re.DOTALL))
                starts = is_program and (name in _STARTING_PROGRAMS or bool(re.fullmatch(r'[0-9]+[a-z]?', word)))
                is_known = program.has_files or program.has_network
                is_other = is_started and not is_known and name in _NETWORK_PROGRAMS
                if starts:
                    is_started = True
                elif (is_program or is_other) and word == part and before != '<':
                    is_program, program, after = False, _Program(name), at + 1
                    if not program.has_files and not program.has_network:
                        self._word(word, program, False, False)
                elif not _is_secret_word(word, option, before, program):
                    named = re.sub(r'=\Z', '', option) or before
                    is_of_option = named in _FILE_OPTIONS and f'{program.name}{named}' not in _FLAGS
                    is_content = word != value and (option != '' or before.startswith('-'))
                    following = parts[at + 1] if at + 1 < len(parts) else ''
                    is_host = bool(re.fullmatch(r'[0-9]{1,5}', following)) and bool(
                        re.fullmatch(r'[A-Za-z][A-Za-z0-9_-]*', word)
                    )
                    is_file = before == '<' or is_of_option or is_content
                    self._word(word, program, is_file, is_host)
                    if not is_file and not option and _ONE_LABEL.match(word):
                        last = word
                        if at == after or _PLAIN_FLAGS.match(before) or re.fullmatch(r'[0-9]+', before):
                            first = first or word
            before = part
        if (first or last) and reached == self._reached and program.name in _REACHING_PROGRAMS:
            self._host(re.sub(r'/.*', '', first or last, flags=re.DOTALL))

    def _word(self, word: str, program: '_Program', is_file: bool, is_host: bool) -> None:
        # A number of few digits is no address.
        if word in ('/dev/null', '_') or _FEW_DIGITS.match(word) or self._address(word):
            return
        device = re.match(r'/dev/(?:tcp|udp)/([^/]+)', word)
        if device is not None:
            self._host(device[1])
            return
        if not is_file and self._remote_file(word, program):
            return
        if not is_file and program.has_network:
            # Of socat: FILE:path and TCP:host:port.
            file = re.match(r'(?:file|open|create):([^,]+)', word, re.IGNORECASE)
            if file is not None:
                self._path(file[1])
                return
            protocol = r'^(?:tcp|udp|ssl|openssl)[46]?(?:-connect|-sendto)?:'
            authority = re.sub(protocol, '', word, flags=re.IGNORECASE)
            authority = re.sub(r'[/?#\\,].*', '', authority, flags=re.DOTALL)
            host = _host_of(authority) if authority else None
            with_port = re.match(r'[^:]*[A-Za-z][^:]*:[0-9]{1,5}\Z', authority)
            if host is not None and (is_host or '@' in authority or with_port or _HOST_NAME.match(host)):
                self._host(authority)
                return
        if program.has_files or is_file or _PATH_SIGN.search(word):
            self._path(word)

    def _remote_file(self, word: str, program: '_Program') -> bool:
        """Whether the word is a file on another host, as of scp and git: `user@host:file`."""
        match = re.match(r'([^@:/\\]+@)?([^@:/\\]{2,}):(?![0-9])(.*)\Z', word, re.DOTALL)
        host = None if match is None or _FEW_DIGITS.match(match[2]) else _host_of(match[2])
        if match is None or host is None:
            return False
        if not program.is_copying if match[1] is None else not program.has_network and not _HOST_NAME.match(host):
            return False
        self._host(match[2])
        self._path(re.sub(r'^:', '', match[3]))
        return True


class _Program:
    """A program of a command, as far as its words are read differently."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_files = name in _FILE_PROGRAMS
        self.has_network = name in _NETWORK_PROGRAMS
        self.is_copying = name in _COPYING_PROGRAMS


def _command_line(parts: Sequence[str]) -> str:
    """The words of a command that is passed as a list, within the limits of one that is a text."""
    line = ''
    for part in parts:
        if len(line) > _CALL_TEXT:
            break
        line += ('' if line == '' else ' ') + part[:_CALL_TEXT]
    return line[:_CALL_TEXT]


def _is_secret_word(word: str, option: str, before: str, program: _Program) -> bool:
    """Whether the word is a secret by what stands before it: `--token`, `PASSWORD=`, `Authorization: Bearer`."""
    if program.has_files or _WHOLE_PATH.match(word):
        return False
    if option.endswith('=') and _SECRET_NAME.search(option[:-1]):
        return True
    is_option = before.startswith('-') and '=' not in before and before not in _FILE_OPTIONS
    if is_option and _SECRET_NAME.search(before):
        return True
    return program.has_network and _BEFORE_SECRET.match(before) is not None


def _redacted_host(host: str) -> str:
    """Where a secret is sent to stays visible if it is a label of the name."""
    return '.'.join(
        label if _without_secrets(label, len(label)) == label else 'redacted' for label in host.split('.')
    )


def _parsed_object(text: str) -> Any:
    """Arguments that a framework passes as JSON."""
    if len(text) <= _CALL_TEXT and re.match(r'[ \t\r\n]*\{', text):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass
    return text


def _call_fields(tool: str, params: Any) -> Dict[str, Any]:
    """The vocabulary of tool calls, the same whatever the tool and its arguments are called."""
    name = tool[:_CALL_NAME]
    reader = _CallReader(name, None)
    try:
        args = _parsed_object(params) if isinstance(params, str) else params
        reader = _CallReader(name, _method_of(args))
        reader.read(args)
    except Exception:  # noqa: BLE001 - values of the agent may raise at any touch
        reader.is_cut = True
    found = {'paths': reader.paths, 'hosts': list(reader.hosts)}
    command = {'command': '\n'.join(reader.commands)} if reader.commands else {}
    is_cut = {'fields_cut': True} if reader.is_cut else {}
    return {'action': reader.action(), **{name: values for name, values in found.items() if values}, **is_cut, **command}


_CUT_SHORT = re.compile(r'\[(?:[0-9]+ more|cut)\]\Z')


def _plain_path(path: str) -> str:
    """Without `.`, `..` and empty parts."""
    names: List[str] = []
    for name in path.split('/'):
        if name not in ('', '.', '..'):
            names.append(name)
        elif name == '..' and names and names[-1] != '..':
            names.pop()
        elif name == '..' and not path.startswith('/'):
            names.append(name)
    root, end = '/' if path.startswith('/') else '', '/' if names and path.endswith('/') else ''
    return root + '/'.join(names) + end


def _shown_path(path: str) -> str:
    # Empty parts and detours would hide from the service which file it is.
    plain = _plain_path(path) if len(path) > _SHOWN_PATH else path
    return f'…{plain[1 - _SHOWN_PATH :]}' if len(plain) > _SHOWN_PATH else plain


def _reported_fields(tool: str, params: Any) -> Dict[str, Any]:
    """The fields of a call without secrets; lists without an element are left out."""
    fields = _call_fields(tool, params)
    shown: Dict[str, Any] = {'action': fields['action']}
    paths = _Redaction(_PATHS_BYTES).of([_shown_path(path) for path in fields.get('paths', [])])
    hosts = _Redaction(_HOSTS_BYTES).of([_redacted_host(host) for host in fields.get('hosts', [])])
    for name, values in (('paths', paths), ('hosts', hosts)):
        if values:
            shown[name] = values
    if fields.get('fields_cut') or any(values and _CUT_SHORT.match(str(values[-1])) for values in (paths, hosts)):
        shown['fields_cut'] = True
    if 'command' in fields:
        shown['command'] = _without_secrets(fields['command'], _COMMAND)
    return shown


_CONTROLS = re.compile(r'[\x01-\x08\x0b\x0c\x0e-\x1f]')
# As long as a key: lists of numbers are mostly something else, such as pixels.
_PRINTABLE_RUN = re.compile(rb'[\t\n\r -~]{%d,}' % _SHORTEST_KEY)
_CONTROLS_AND_SURROGATES = re.compile('[\x01-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff]')


class _Texts:
    """Every text in the arguments of a call, as far as they are plain data: strings, bytes (also as a list of numbers),
    paths, dictionaries and their keys, lists, tuples, sets, and models of pydantic."""

    def __init__(self, arguments: Any) -> None:
        self.found: List[str] = []
        # Texts in lists of numbers. No tool takes a path so, and most such lists are data in which paths seem to be.
        self.numbers: List[str] = []
        self.complete = True
        self._values = 0
        self._size = 0
        self._collect(arguments, _ARGUMENT_DEPTH)

    def _collect(self, value: Any, depth: int) -> None:
        if value is None or isinstance(value, (bool, int, float)):
            return
        self._values += 1
        if depth < 0 or self._values > _ARGUMENT_VALUES or self._size > _KEY_TEXT:
            self.complete = False
        elif isinstance(value, str):
            self._add(value)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            self._add(bytes(value[: _KEY_TEXT + 1]).decode('latin-1'))
        elif isinstance(value, os.PathLike):
            self._collect(os.fspath(value), depth - 1)
        elif isinstance(value, Mapping):
            for name, item in value.items():
                self._collect(name, depth - 1)
                self._collect(item, depth - 1)
            self._add_numbers(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            for item in value:
                self._collect(item, depth - 1)
            self._add_numbers(value)
        elif _is_model(value):
            self._collect(value.model_dump(), depth - 1)

    def _add_numbers(self, items: Iterable[Any]) -> None:
        run = bytearray()
        for item in items:
            if type(item) is int and 0 <= item <= 255:
                run.append(item)
            elif run:
                self._add_runs(run)
                run = bytearray()
        self._add_runs(run)

    def _add_runs(self, run: bytearray) -> None:
        # In UTF-16 a NUL stands beside each character.
        for form in (run, run.replace(b'\0', b'')) if len(run) >= _SHORTEST_KEY else ():
            text = b'\n'.join(_PRINTABLE_RUN.findall(form)).decode('ascii')
            self._size += len(text)
            if self._size > _KEY_TEXT:
                self.complete = False
            elif text and text not in self.numbers[-1:]:
                self.numbers.append(text)

    def _add(self, text: str) -> None:
        self._size += len(text)
        if self._size > _KEY_TEXT:
            self.complete = False
        # Decoys are ASCII; in UTF-16 a NUL stands beside each character. Other control characters need more room in
        # JSON than the service takes, and are part of no key and no path.
        text = text[:_KEY_TEXT].replace('\0', '')
        readable = _storable(_CONTROLS.sub(' ', text))
        self.found.append(readable)
        # A tool may drop such characters just as well, and they must not keep two halves of a decoy apart.
        joined = _CONTROLS_AND_SURROGATES.sub('', text)
        if len(joined) < len(text) and joined != readable:
            self.found.append(joined)


def _key_parts(texts: Sequence[str]) -> Iterator[str]:
    # Nothing that a key consists of stands between the texts, so that they stay apart.
    text = '\n;\n'.join(texts)
    for start in range(0, len(text), _KEY_PART - _KEY_OVERLAP):
        yield text[start : start + _KEY_PART]
        if start + _KEY_PART >= len(text):
            return


# A separator, a home, a name with an ending or a leading dot.
_PATH_LOOKS = re.compile(r'[/\\~]|\w\.\w{1,12}(?!\w)|(?<![\w.])\.\w')
# The service follows these from folder to folder, so such a command stays by itself.
_FOLDER_CHANGE = re.compile(r'(?:^|[\s;|&(])(?:cd|pushd|chdir|set-location|-C)\s', re.IGNORECASE)


def _path_parts(texts: Sequence[str]) -> List[str]:
    """What to ask as a path. The service takes a text apart into the words of a command, so that many words share a
    request."""
    alone: List[str] = []
    words: List[str] = []
    for text in [form for text in texts for form in (text, *_link_target(text))]:
        is_short = len(text) <= _SHORT_TEXT
        if not text.strip() or not (is_short or _PATH_LOOKS.search(text)):
            continue
        if _fits_path(text) and _FOLDER_CHANGE.search(text):
            alone.append(text)
        elif not re.search(r'[\s;|&<>()`"\'\\]', text):
            words.append(text)
        else:
            # In quotes, as the name of one file; and its words, by themselves or as they stand in a longer text.
            words.append("'" + text.replace("'", '') + "'")
            split = re.split(r'[\s;|&<>()`"\']+', text)
            words += [text] if is_short else [word for word in split if _PATH_LOOKS.search(word)]
    return list(dict.fromkeys(alone)) + _packed(words)


def _fits_path(text: str) -> bool:
    return len(text.encode()) <= _PATH_PART_BYTES


def _packed(words: Sequence[str]) -> List[str]:
    packs: List[List[str]] = []
    size = _PATH_PART_BYTES
    for word in dict.fromkeys(words):
        # No system opens a longer path; one that only has detours in it may be shortened by the tool itself.
        word = word if _fits_path(word) else os.path.normpath(word)
        if not _fits_path(word):
            continue
        length = len(word.encode()) + 1
        if size + length > _PATH_PART_BYTES:
            packs.append([])
            size = 0
        packs[-1].append(word)
        size += length
    return ['\n'.join(pack) for pack in packs]


def _link_target(text: str) -> List[str]:
    """Where a path leads to, if links lead it elsewhere."""
    # A Windows share is not touched: looking at it would log on to whatever host the text names.
    if len(text) > _PATH_PART_BYTES or '\n' in text or text.startswith(('\\\\', '//')):
        return []
    try:
        path = os.path.abspath(os.path.expanduser(text))
        real = os.path.realpath(path)
    except (OSError, ValueError):
        return []
    return [] if real == path else [_storable(real)]


def _full_jitter(failures: int) -> float:
    """Seconds to wait after so many failures in a row."""
    return random.uniform(0.1, min(_BACKOFF_MAX, _BACKOFF_MIN * 2 ** min(failures, 10)))


def _describe(error: BaseException) -> str:
    """What went wrong on the way, without addresses or contents."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return _one_line(f'the certificate is not trusted: {cause.verify_message}')
    words = cause.strerror if isinstance(cause, OSError) and cause.strerror else ''
    return _one_line(f'{type(cause).__name__} {words}')


# --- Signatures ------------------------------------------------------------------------------------------------------

# Ed25519 as in RFC 8032, verification only. Nothing here is secret, so that no step needs to take constant time.
_FIELD = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_CURVE = -121665 * pow(121666, -1, _FIELD) % _FIELD
_ROOT_OF_MINUS_ONE = pow(2, (_FIELD - 1) // 4, _FIELD)

# Extended homogeneous coordinates: x = X/Z, y = Y/Z, x*y = T/Z.
_Point = Tuple[int, int, int, int]
_NEUTRAL: _Point = (0, 1, 1, 0)


def _add(left: _Point, right: _Point) -> _Point:
    a = (left[1] - left[0]) * (right[1] - right[0]) % _FIELD
    b = (left[1] + left[0]) * (right[1] + right[0]) % _FIELD
    c = 2 * left[3] * right[3] * _CURVE % _FIELD
    d = 2 * left[2] * right[2] % _FIELD
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _FIELD, g * h % _FIELD, f * g % _FIELD, e * h % _FIELD


def _double(point: _Point) -> _Point:
    x, y, z, _ = point
    a, b = x * x, y * y
    h = a + b
    e = h - (x + y) ** 2
    g = a - b
    f = 2 * z * z + g
    return e * f % _FIELD, g * h % _FIELD, f * g % _FIELD, e * h % _FIELD


def _decode_point(encoded: bytes) -> Optional[_Point]:
    """The point; None when the bytes are not the canonical form of one."""
    sign, y = divmod(int.from_bytes(encoded, 'little'), 2**255)
    if len(encoded) != 32 or y >= _FIELD:
        return None
    square = (y * y - 1) * pow(_CURVE * y * y + 1, -1, _FIELD) % _FIELD
    x = pow(square, (_FIELD + 3) // 8, _FIELD)
    if x * x % _FIELD != square:
        x = x * _ROOT_OF_MINUS_ONE % _FIELD
    if x * x % _FIELD != square or (x == 0 and sign):
        return None
    x = x if x % 2 == sign else _FIELD - x
    return x, y, 1, x * y % _FIELD


def _encode_point(point: _Point) -> bytes:
    inverse = pow(point[2], -1, _FIELD)
    x, y = point[0] * inverse % _FIELD, point[1] * inverse % _FIELD
    return (y | (x & 1) << 255).to_bytes(32, 'little')


_BASE = cast(_Point, _decode_point(bytes([0x58]) + bytes([0x66]) * 31))


class _PublicKey:
    """Raises ValueError for bytes that are no Ed25519 public key."""

    def __init__(self, encoded: bytes) -> None:
        point = _decode_point(encoded)
        # Under a key of small order, such as 32 zero bytes, anyone can sign.
        if point is None or _double(_double(_double(point)))[0] == 0:
            raise ValueError('not an Ed25519 public key')
        negative = (_FIELD - point[0], point[1], 1, _FIELD - point[3])
        self._encoded = encoded
        self._sums = (_NEUTRAL, _BASE, negative, _add(_BASE, negative))

    def verifies(self, text: bytes, signature: bytes) -> bool:
        s = int.from_bytes(signature[32:], 'little')
        # With s of the group's order or more, one signature would have several forms.
        if len(signature) != 64 or s >= _ORDER:
            return False
        k = int.from_bytes(hashlib.sha512(signature[:32] + self._encoded + text).digest(), 'little') % _ORDER
        # s * base - k * key, both in one pass.
        point = _NEUTRAL
        for bit in range(_ORDER.bit_length() - 1, -1, -1):
            point = _double(point)
            place = (s >> bit & 1) + 2 * (k >> bit & 1)
            if place:
                point = _add(point, self._sums[place])
        return _encode_point(point) == signature[:32]


def _from_base64url(text: str, length: int) -> Optional[bytes]:
    """So many bytes from base64url without padding; None for anything else."""
    try:
        content = base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
    except ValueError:
        return None
    canonical = base64.urlsafe_b64encode(content).rstrip(b'=').decode()
    return content if len(content) == length and canonical == text else None


# Without line breaks: two different messages must not have the same signed text.
_ISSUED_AT = re.compile(r'[0-9T:.Z+-]{1,40}')


class _PublicKeys:
    """The keys of which one has to have signed what the service says about the kill switch. Raises ValueError."""

    def __init__(self, instance_id: str, public_key: str) -> None:
        self._instance_id = instance_id
        keys = [_from_base64url(part.strip(), 32) for part in public_key.split(',')]
        try:
            if len(keys) > _PUBLIC_KEYS or None in keys:
                raise ValueError
            self._keys = [_PublicKey(cast(bytes, key)) for key in keys]
        except ValueError:
            raise ValueError(
                'public_key must be the x of a key in /.well-known/wardline-keys.json of the service, or at most '
                f'{_PUBLIC_KEYS} of them separated by commas'
            ) from None
        self._verified: Tuple[bytes, str] = (b'', '')

    def signed(self, control: _Control, issued_at: Any, signature: Any) -> bool:
        """Whether the service has signed this state. The last result is kept: until the state changes, every answer
        carries the same signature."""
        if not isinstance(issued_at, str) or not _ISSUED_AT.fullmatch(issued_at) or not isinstance(signature, str):
            return False
        action, reason = ('suspend', control.reason or '') if control.suspended else ('resume', '')
        parts = ('wardline-control-v1', self._instance_id, action, reason, str(control.version), issued_at, '')
        try:
            text = '\n'.join(parts).encode()
        except UnicodeEncodeError:
            return False
        if self._verified == (text, signature):
            return True
        if not self._verifies(text, signature):
            return False
        self._verified = (text, signature)
        return True

    def signed_drill(self, nonce: str, issued_at: Any, signature: Any) -> bool:
        """Whether the service has signed this drill."""
        if not isinstance(issued_at, str) or not _ISSUED_AT.fullmatch(issued_at) or not isinstance(signature, str):
            return False
        text = '\n'.join(('wardline-drill-v1', self._instance_id, nonce, issued_at, ''))
        return self._verifies(text.encode(), signature)

    def signed_policy(self, version: int, body: str, signature: Any) -> bool:
        """Whether the service has signed these policies. The body is JSON without line feeds."""
        if not isinstance(signature, str):
            return False
        try:
            text = f'wardline-policy-v1\n{self._instance_id}\n{version}\n{body}\n'.encode()
        except UnicodeEncodeError:
            return False
        return self._verifies(text, signature)

    def _verifies(self, text: bytes, signature: str) -> bool:
        content = _from_base64url(signature, 64)
        return content is not None and any(key.verifies(text, content) for key in self._keys)


# --- Requests --------------------------------------------------------------------------------------------------------


class _NoAnswer(Exception):
    pass


class _Exchange:
    """A request on its way. `abort` ends it from another thread, whatever it waits for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._handle: Optional[socket.socket] = None
        self._aborted = False
        self._over = threading.Event()
        self._deadline = math.inf

    def connect(self, *place: Any, **options: Any) -> socket.socket:
        connection = socket.create_connection(*place, **options)
        with self._lock:
            if self._aborted:
                connection.close()
                raise TimeoutError('given up')
            # A second handle: encryption takes the first one over.
            self._handle = connection.dup()
        return connection

    def abort(self) -> None:
        with self._lock:
            self._aborted = True
            if self._handle is not None:
                with contextlib.suppress(OSError):
                    self._handle.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._over.set()
        with self._lock:
            self._aborted = True
            if self._handle is not None:
                self._handle.close()
                self._handle = None

    def extend(self, seconds: float) -> None:
        """Moves the moment at which `watch` aborts."""
        self._deadline = time.monotonic() + seconds

    def watch(self) -> None:
        while not self._over.wait(min(self._deadline - time.monotonic(), threading.TIMEOUT_MAX)):
            if time.monotonic() >= self._deadline:
                self.abort()
                return


class _Reply(http.client.HTTPResponse):
    """The standard library reads interim answers for as long as they come."""

    _statuses = 0

    def _read_status(self) -> Any:
        self._statuses += 1
        if self._statuses > _INTERIM_ANSWERS:
            raise http.client.HTTPException('too many interim answers')
        return super()._read_status()  # type: ignore[misc]


class _Request(urllib.request.Request):
    def __init__(self, exchange: _Exchange, url: str, body: Optional[bytes], headers: Mapping[str, str]) -> None:
        super().__init__(url, data=body, headers=dict(headers))
        self.exchange = exchange


def _connector(kind: Any, request: Any) -> Callable[..., Any]:
    def make(*place: Any, **options: Any) -> Any:
        connection = kind(*place, **options)
        connection._create_connection = request.exchange.connect
        connection.response_class = _Reply
        return connection

    return make


class _HTTPHandler(urllib.request.HTTPHandler):
    def http_open(self, req: Any) -> Any:
        return self.do_open(_connector(http.client.HTTPConnection, req), req)


class _HTTPSHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._trusted = context

    def https_open(self, req: Any) -> Any:
        return self.do_open(_connector(http.client.HTTPSConnection, req), req, context=self._trusted)


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Dict[str, Any]:
        return _json_object(self.body)

    def retry_after(self) -> float:
        try:
            seconds = float(self.headers.get('retry-after') or 0)
        except ValueError:
            return 0.0
        return min(max(seconds, 0.0), _RETRY_AFTER_MAX) if math.isfinite(seconds) else 0.0

    def refusal(self) -> str:
        said = self.json().get('error')
        return f'{self.status} {_one_line(said)}' if isinstance(said, str) else str(self.status)


class _Transport:
    """Requests to one service. Redirects are not followed, so that the key goes nowhere else."""

    def __init__(self, url: str, key: str, context: Optional[ssl.SSLContext]) -> None:
        parts = urllib.parse.urlsplit(url)
        # The URL is not shown: it may hold a password.
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise ValueError('url must start with http:// or https:// and name a host')
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError('url must not contain a user, a query or a fragment')
        if not re.fullmatch(r'[\x21-\x7e]{1,1000}', key):
            raise ValueError('key must be a Wardline key, without spaces or line breaks')
        if parts.scheme == 'http' and not _is_loopback(parts.hostname):
            _log.warning('The key for Wardline travels in clear: use https beyond this machine.')
        self._base = url.rstrip('/')
        self._key = key
        self.on_suspended: Callable[[int], None] = lambda version: None
        """Called with the control version of each answer that says that the agent is suspended. In a thread of the
        request: a signal handler cannot interrupt it."""
        self._opener = urllib.request.OpenerDirector()
        # Without a handler for errors and redirects, every answer comes back as it is.
        self._opener.add_handler(urllib.request.ProxyHandler())
        self._opener.add_handler(_HTTPHandler())
        if parts.scheme == 'https':
            self._opener.add_handler(_HTTPSHandler(context or ssl.create_default_context()))
        self.renew()

    def renew(self) -> None:
        """Forgets what a parent process had under way."""
        self._places: 'queue.SimpleQueue[None]' = queue.SimpleQueue()
        for _ in range(_REQUESTS_AT_ONCE):
            self._places.put(None)

    def open(
        self, exchange: _Exchange, path: str, timeout: float, body: Optional[bytes], headers: Mapping[str, str]
    ) -> Any:
        request = _Request(
            exchange,
            self._base + path,
            body,
            {
                'X-Monitor-Key': self._key,
                'User-Agent': f'wardline-python/{__version__}',
                'Content-Type': 'application/json',
                **headers,
            },
        )
        return self._opener.open(request, timeout=timeout)

    def request(
        self,
        path: str,
        body: Optional[bytes] = None,
        headers: Mapping[str, str] = {},
        timeout: float = _REQUEST_TIMEOUT,
    ) -> _Answer:
        """One answer to a GET, or to a POST when there is a body, within the time. Raises _NoAnswer.

        The request runs in a separate thread: neither a name that does not resolve nor a service that sends a byte
        now and then can keep the caller longer."""
        deadline = time.monotonic() + timeout
        places = self._places
        try:
            places.get(timeout=timeout)
        except queue.Empty:
            raise _NoAnswer('too many requests are waiting for an answer') from None
        exchange = _Exchange()
        outcome: 'queue.SimpleQueue[Any]' = queue.SimpleQueue()

        def run() -> None:
            try:
                outcome.put(self._exchange(exchange, path, body, headers, timeout))
            except BaseException as error:  # noqa: BLE001 - it goes to the caller
                outcome.put(error)
            finally:
                exchange.close()
                places.put(None)

        try:
            # Without the bookkeeping of `threading`, whose locks a signal handler must not wait for.
            _thread.start_new_thread(run, ())
        except RuntimeError:
            # The interpreter is ending and starts no thread any more; its sockets still have their timeouts.
            run()
        try:
            result = outcome.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            exchange.abort()
            raise _NoAnswer(f'no complete answer within {timeout:g} seconds') from None
        if isinstance(result, (OSError, http.client.HTTPException, ValueError)):
            raise _NoAnswer(_describe(result)) from None
        if isinstance(result, BaseException):
            raise result
        return cast(_Answer, result)

    def _exchange(
        self, exchange: _Exchange, path: str, body: Optional[bytes], headers: Mapping[str, str], timeout: float
    ) -> _Answer:
        with self.open(exchange, path, timeout, body, headers) as response:
            version = response.headers.get('wardline-suspended', '')
            if re.fullmatch(r'\d{1,16}', version, re.ASCII) and _is_version(int(version)):
                self.on_suspended(int(version))
            content = response.read(_ANSWER_BYTES + 1)
            if len(content) > _ANSWER_BYTES:
                raise _NoAnswer('the answer is too long')
            return _Answer(response.status, _lower(response.headers), content)


def _lower(headers: Mapping[str, str]) -> Dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _is_loopback(host: str) -> bool:
    if host == 'localhost' or host.endswith('.localhost'):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# --- Errors and listeners --------------------------------------------------------------------------------------------


class _Notices:
    """Calls the callbacks, one after another, in a separate thread: one that hangs delays no kill."""

    def __init__(self, callbacks: Mapping[str, List[Callable[..., Any]]]) -> None:
        self._callbacks = callbacks
        self._waiting: 'queue.SimpleQueue[Any]' = queue.SimpleQueue()
        self.errors = 0

    def put(self, kind: str, *details: Any) -> None:
        if not self._callbacks[kind]:
            return
        if self._waiting.qsize() >= _NOTICES:
            self.errors += 1
        else:
            self._waiting.put((kind, details))

    def end(self) -> None:
        self._waiting.put(None)

    def run(self, stopping: threading.Event) -> None:
        while True:
            notice = self._waiting.get()
            if notice is None and stopping.is_set():
                return
            kind, details = notice or ('', ())
            for callback in list(self._callbacks.get(kind, [])):
                try:
                    callback(*details)
                except BaseException as error:  # noqa: BLE001 - sys.exit() in a thread ends only the thread
                    self.errors += 1
                    _log.warning('A callback for %s raised %s.', kind, type(error).__name__)


class _Problems:
    """What does not work right now, by area. Changes are reported, not every attempt."""

    def __init__(self, notices: _Notices) -> None:
        self._notices = notices
        self._lock = threading.RLock()
        self._current: Dict[str, str] = {}

    def note(self, area: str, message: str) -> None:
        with self._lock:
            if self._current.get(area) == message:
                return
            self._current[area] = message
        _log.warning('%s', message)
        self._notices.put('error', WardlineError(message))

    def over(self, area: str) -> None:
        with self._lock:
            self._current.pop(area, None)

    def current(self) -> Dict[str, str]:
        with self._lock:
            return dict(self._current)


# --- Reports ---------------------------------------------------------------------------------------------------------


class _Outbox:
    """The bounded queue of reports, and its way to the service."""

    def __init__(self, transport: _Transport, instance_id: str, boot_id: str, problems: _Problems) -> None:
        self._transport = transport
        self._instance_id = instance_id
        self._boot_id = boot_id
        self._problems = problems
        self._changed = threading.Condition()
        self._queue: Deque[bytes] = collections.deque()
        self._bytes = 0
        self._in_flight = 0
        self._urgent = False
        self._hurries = 0
        self._attempts = 0
        self._failed_attempt = 0
        self._batches = 0
        self._dropped: Dict[str, int] = {}
        self._unreported: Dict[str, int] = {}

    def state(self) -> Tuple[int, Dict[str, int]]:
        """Reports that wait, and those that were lost by reason."""
        with self._changed:
            return len(self._queue) + self._in_flight, dict(self._dropped)

    def put(self, event: Dict[str, Any]) -> bool:
        severity = event['severity']
        content = self._encode(event)
        with self._changed:
            places = _QUEUE_EVENTS - (_QUEUE_RESERVE if severity == 'info' else 0)
            waiting = len(self._queue) + self._in_flight
            if waiting < places and self._bytes + len(content) <= _QUEUE_BYTES:
                self._queue.append(content)
                self._bytes += len(content)
                self._urgent = self._urgent or severity in ('critical', 'breach')
                self._changed.notify_all()
                return True
        self.drop('queue_full', 1)
        self._problems.note('queue', 'The queue of reports is full: reports are dropped.')
        return False

    def drop(self, reason: str, count: int) -> None:
        with self._changed:
            for counts in (self._dropped, self._unreported):
                counts[reason] = counts.get(reason, 0) + count

    def flush(self, timeout: float) -> bool:
        """Sends what waits. False when it was not all sent in time, or when an attempt failed meanwhile."""
        with self._changed:
            attempts = self._attempts
            self._hurries += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_empty() or self._failed_attempt > attempts, timeout)
            return self.is_empty()

    def is_empty(self) -> bool:
        return not self._queue and self._in_flight == 0

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def abandon(self) -> None:
        """Counts what still waits as lost."""
        with self._changed:
            left = len(self._queue)
            self._bytes -= sum(map(len, self._queue))
            self._queue.clear()
        if left:
            self.drop('stopped', left)

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            batch = self._next_batch(stopping)
            if not batch:
                continue
            size = sum(map(len, batch))
            try:
                self._deliver(batch, stopping)
            finally:
                with self._changed:
                    self._in_flight = 0
                    self._bytes -= size
                    self._changed.notify_all()

    def _encode(self, event: Mapping[str, Any]) -> bytes:
        return _to_json({'source': self._instance_id, 'instance_id': self._instance_id, **event})

    def _next_batch(self, stopping: threading.Event) -> List[bytes]:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._queue) or stopping.is_set())
            hurries = self._hurries

            def is_due() -> bool:
                full = len(self._queue) >= _BATCH_EVENTS
                return full or self._urgent or self._hurries != hurries or stopping.is_set()

            self._changed.wait_for(is_due, _LINGER)
            batch: List[bytes] = []
            size = 0
            while self._queue and len(batch) < _BATCH_EVENTS and size < _BATCH_BYTES:
                size += len(self._queue[0])
                batch.append(self._queue.popleft())
            self._urgent = False
            self._in_flight = len(batch)
            return batch

    def _deliver(self, batch: Sequence[bytes], stopping: threading.Event) -> None:
        """Sends one batch until the service takes or refuses it. Each attempt is the same bytes under the same key,
        so that the service stores them once, also when its answer was lost."""
        dropped = self._take_unreported()
        notice = [self._encode(_drop_notice(dropped))] if dropped else []
        body = b'[' + b','.join([*batch, *notice]) + b']'
        self._batches += 1
        headers = {'Idempotency-Key': f'{self._boot_id}-{self._batches}'}
        failures = 0
        while True:
            with self._changed:
                self._attempts += 1
                attempt, hurries = self._attempts, self._hurries
            pause = 0.0
            try:
                answer = self._transport.request('/api/events/batch', body, headers)
                # A page that a network puts in the way also answers 200.
                if answer.status == 200 and isinstance(answer.json().get('ids'), list):
                    self._settle(answer, len(batch))
                    return
                if _is_final(answer.status):
                    self._problems.note('report', f'Reports were refused: {answer.refusal()}')
                    self._drop_batch('refused', len(batch), dropped)
                    return
                problem, pause = answer.refusal(), answer.retry_after()
            except _NoAnswer as error:
                problem = str(error)
            failures += 1
            self._problems.note('report', f'Reports are queued, because sending them failed: {problem}')
            self._pause(attempt, hurries, failures, pause, stopping)
            if stopping.is_set():
                self._drop_batch('stopped', len(batch), dropped)
                return

    def _pause(self, attempt: int, hurries: int, failures: int, asked: float, stopping: threading.Event) -> None:
        with self._changed:
            self._failed_attempt = attempt
            self._changed.notify_all()
            if asked > 0:
                self._changed.wait_for(stopping.is_set, asked + random.uniform(0, 1))
            else:
                # A caller of flush waits for the result now, not after the pause.
                self._changed.wait_for(
                    lambda: stopping.is_set() or self._hurries != hurries, _full_jitter(failures)
                )

    def _settle(self, answer: _Answer, reports: int) -> None:
        self._problems.over('queue')
        errors = answer.json().get('errors')
        if not isinstance(errors, list) or not errors:
            self._problems.over('report')
            return
        first = errors[0].get('error') if isinstance(errors[0], dict) else ''
        self.drop('refused', min(len(errors), reports))
        self._problems.note('report', f'{len(errors)} reports were refused: {_one_line(str(first))}')

    def _take_unreported(self) -> Dict[str, int]:
        with self._changed:
            dropped, self._unreported = self._unreported, {}
            return dropped

    def _drop_batch(self, reason: str, reports: int, dropped: Mapping[str, int]) -> None:
        """Earlier losses that the batch did not report are reported by the next one."""
        self.drop(reason, reports)
        with self._changed:
            for earlier, count in dropped.items():
                self._unreported[earlier] = self._unreported.get(earlier, 0) + count


def _drop_notice(dropped: Mapping[str, int]) -> Dict[str, Any]:
    count = sum(dropped.values())
    return {
        'severity': 'warning',
        'event_type': 'sdk_events_dropped',
        'description': f'{count} events of this agent were dropped before the service stored them',
        'metadata': {'count': count, 'reasons': dict(dropped)},
    }


def _is_final(status: int) -> bool:
    """Whether the same request would be refused again. A key may become valid again, and reports can wait for that."""
    return 300 <= status < 500 and status not in (401, 403, 404, 408, 425, 429)


class _Metrics:
    """Sums of figures since the last report."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._sums: Dict[str, float] = {}

    def add(self, name: str, n: float) -> bool:
        try:
            usable = isinstance(name, str) and _METRIC_NAME.fullmatch(name) is not None and math.isfinite(n)
            with self._lock:
                total = self._sums.get(name, 0) + n
                has_place = name in self._sums or len(self._sums) < _METRIC_NAMES
                if not (usable and has_place and math.isfinite(total)):
                    return False
                self._sums[name] = total
                return True
        except (TypeError, OverflowError):
            return False

    def take(self) -> List[str]:
        """The sums as JSON, in as many parts as it takes to fit into descriptions; they start from zero."""
        with self._lock:
            sums, self._sums = self._sums, {}
        names = list(sums)
        # Ten names with their figures have room in one description.
        parts = [names[start : start + 10] for start in range(0, len(names), 10)]
        return [_to_json({name: sums[name] for name in part}).decode() for part in parts]


# --- Decoys ----------------------------------------------------------------------------------------------------------


_TOO_MANY = 'This agent asked for too many checks.'
_TOO_COSTLY = 'Comparing these arguments with the decoys exceeds the work limit of a check.'
_KEY_REFUSED = 'The service refuses the key.'


class _DecoyChecks:
    def __init__(self, transport: _Transport, instance_id: str, problems: _Problems) -> None:
        self._transport = transport
        self._instance_id = instance_id
        self._problems = problems
        self.none_planted = False
        """The service says that no decoy could match: nothing needs to be asked."""

    def hear(self, answer: _Answer) -> None:
        said = answer.headers.get('x-wardline-decoys')
        if said is not None:
            self.none_planted = said == 'none'

    def key(self, value: Any, tool: Optional[str]) -> Optional[bool]:
        texts = _Texts(value)
        return self._check(texts.found + texts.numbers, [], texts.complete, tool)

    def path(self, value: Any, tool: Optional[str]) -> Optional[bool]:
        texts = _Texts(value)
        return self._check([], texts.found, texts.complete, tool)

    def arguments(self, values: Sequence[Any], tool: str) -> Optional[bool]:
        texts = _Texts(values)
        long_enough = [text for text in texts.found if len(text) >= _SHORTEST_KEY]
        return self._check(long_enough + texts.numbers, texts.found, texts.complete, tool)

    def _check(self, keys: Sequence[str], paths: Sequence[str], complete: bool, tool: Optional[str]) -> Optional[bool]:
        """Whether a text is a decoy; None when the service did not say. Raises _Uncheckable when the arguments are
        such that they cannot be checked: an attacker may have written them, and must not switch checks off."""
        if self.none_planted:
            return False
        path_parts = _path_parts(paths) if complete else []
        if not complete or len(path_parts) > _PATH_PARTS:
            raise _Uncheckable('The arguments are too large to be checked.')
        questions = [('key', part) for part in _key_parts(keys)] + [('path', part) for part in path_parts]
        context = self._context(tool)
        answered, refused, refused_key = 0, '', 0
        failure: Optional[_NoAnswer] = None
        for outcome in self._ask_all(questions, context):
            if isinstance(outcome, _NoAnswer):
                failure = outcome
                continue
            if isinstance(outcome, Exception):
                raise outcome
            matched, refusal = outcome
            if matched:
                return True
            if refusal is _KEY_REFUSED:
                refused_key += 1
            else:
                refused = refused or refusal
            answered += matched is not None
        if failure is not None:
            self._problems.note('check', f'A decoy check failed: {failure}')
        if refused:
            raise _Uncheckable(refused)
        if answered == len(questions):
            return False
        # The fail mode decides only when the service is away or refuses the key. While it answers anything else, the
        # arguments themselves keep it from answering.
        is_key_refused = failure is None and refused_key == len(questions)
        if answered > 0 or not (is_key_refused or not self._is_answering(context)):
            raise _Uncheckable('The service answers, but did not check all of these arguments in time.')
        return None

    def _is_answering(self, context: Mapping[str, str]) -> bool:
        """Whether the service answers for a harmless text."""
        deadline = time.monotonic() + _PROBE_TIMEOUT
        try:
            matched, refusal = self._ask('key', 'wardline', context, deadline, _PROBE_TIMEOUT)
        except _NoAnswer:
            return False
        return matched is not None or refusal is _TOO_MANY

    def _ask_all(self, questions: Sequence[Tuple[str, str]], context: Mapping[str, str]) -> Iterator[Any]:
        """The answer to each question, or its exception; without those for which there was no time."""
        deadline = time.monotonic() + _CHECKS_TIMEOUT
        waiting = iter(questions)
        outcomes: 'queue.SimpleQueue[Any]' = queue.SimpleQueue()
        over = threading.Event()

        def work() -> None:
            try:
                for kind, text in waiting:
                    outcome = self._ask(kind, text, context, deadline)
                    outcomes.put(outcome)
                    if outcome[0]:
                        over.set()
                    if over.is_set() or time.monotonic() >= deadline:
                        return
            except Exception as error:  # noqa: BLE001 - it goes to the caller
                # What does not answer now will not answer hundreds of times.
                outcomes.put(error)
            finally:
                outcomes.put(None)

        workers = 0
        # Few questions are asked in this thread.
        if len(questions) > _CHECKS_AT_ONCE:
            # Bare threads for the same reasons as those of the requests.
            with contextlib.suppress(RuntimeError):
                while workers < _CHECKS_AT_ONCE:
                    _thread.start_new_thread(work, ())
                    workers += 1
        if workers == 0:
            work()
            workers = 1
        # An interpreter that is ending may stop the threads without a word.
        latest = deadline + _CHECK_TIMEOUT + 1
        with contextlib.suppress(queue.Empty):
            while workers > 0:
                outcome = outcomes.get(timeout=max(0.0, latest - time.monotonic()))
                if outcome is None:
                    workers -= 1
                else:
                    yield outcome

    def _context(self, tool: Optional[str]) -> Dict[str, str]:
        context = {'instance_id': self._instance_id}
        if tool is not None:
            context['tool'] = _one_line(tool, 100)
        try:
            context['cwd'] = _storable(os.getcwd())
        except OSError:
            pass
        return context

    def _ask(
        self, kind: str, text: str, context: Mapping[str, str], deadline: float, timeout: Optional[float] = None
    ) -> Tuple[Optional[bool], str]:
        """Whether the text matched, None when the service did not say; and why it refused to look. Raises _NoAnswer."""
        timeout = timeout or _CHECK_TIMEOUT
        body = _to_json({kind: text, 'meta': context})
        while True:
            answer = self._transport.request(f'/api/honeypots/check/{kind}', body, timeout=timeout)
            matched = answer.json().get('matched')
            if answer.status == 200 and isinstance(matched, bool):
                self._problems.over('check')
                is_partial = not matched and answer.headers.get('x-wardline-check') == 'partial'
                return matched, _TOO_COSTLY if is_partial else ''
            pause = max(answer.retry_after(), 0.1)
            if answer.status not in (429, 503) or time.monotonic() + pause >= deadline:
                break
            time.sleep(pause)
        # What a faulty answer says may repeat the text that was asked about.
        self._problems.note('check', f'A decoy check failed: {answer.status}')
        # Only the arguments, or a flood of checks in the name of this agent, make the service refuse one.
        if answer.status in (400, 413, 422):
            return None, 'The service cannot check these arguments.'
        code = answer.headers.get('x-error-code')
        is_key_invalid = answer.status == 401 or code == 'too_many_failures'
        # The service answers `overloaded` when the key has too many costly checks in progress.
        if (answer.status == 429 and not is_key_invalid) or (answer.status == 503 and code == 'overloaded'):
            return None, _TOO_MANY
        # Without a code, something in between refused, perhaps because of the text.
        return None, _KEY_REFUSED if is_key_invalid or (code and answer.status < 500) else ''


class _Outputs:
    """Has results and answers compared with decoys, one after another. The service stores what it finds and does not
    say it."""

    def __init__(self, transport: _Transport, instance_id: str, decoys: _DecoyChecks) -> None:
        self._transport = transport
        self._instance_id = instance_id
        self._decoys = decoys
        self._changed = threading.Condition()
        self._waiting: Deque[Dict[str, Any]] = collections.deque()
        self._in_flight = False

    def add(self, of: str, keys: str, tool: Optional[str]) -> None:
        if not keys or self._decoys.none_planted:
            return
        meta = {'instance_id': self._instance_id, **({} if tool is None else {'tool': tool})}
        with self._changed:
            if len(self._waiting) < _OUTPUTS_WAITING:
                self._waiting.append({'of': of, 'text': keys, 'meta': meta})
                self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._in_flight, timeout)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or stopping.is_set())
                if stopping.is_set():
                    return
                output = self._waiting.popleft()
                self._in_flight = True
            try:
                with contextlib.suppress(_NoAnswer):
                    self._transport.request('/api/honeypots/check/output', _to_json(output), timeout=_REQUEST_TIMEOUT)
            finally:
                with self._changed:
                    self._in_flight = False
                    self._changed.notify_all()
            if self._waiting:
                stopping.wait(_OUTPUT_PAUSE)


class _Uncheckable(Exception):
    """Why arguments cannot be checked; the message holds nothing of them."""


# --- Kill switch -----------------------------------------------------------------------------------------------------


class _HostRecord:
    """What stays on the agent's own host: the state file and the suspend log. Both are for this user only."""

    def __init__(self, instance_id: str, state_file: Optional[str], suspend_log: Optional[str]) -> None:
        log = suspend_log if suspend_log is not None or state_file is None else f'{state_file}.log'
        self._instance_id = instance_id
        self._state_file = None if state_file is None else os.path.abspath(state_file)
        self._suspend_log = None if log is None else os.path.abspath(log)

    def read(self) -> Optional[_Control]:
        """The state that was applied last; None when the file cannot be used."""
        if self._state_file is None:
            return _Control()
        try:
            handle = _open_regular(self._state_file, os.O_RDONLY)
            with open(handle, encoding='utf-8') as file:
                state = json.loads(file.read(_STATE_FILE_BYTES))
            control = _Control(state['version'], state['suspended'], state['reason'])
            if state['instance_id'] != self._instance_id or not _is_version(control.version):
                return None
            if not isinstance(control.suspended, bool) or not isinstance(control.reason, (str, type(None))):
                return None
            return control
        except FileNotFoundError:
            return _Control()
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, control: _Control, instead: bool = False) -> None:
        """Keeps the state, unless a process of the same instance has kept a newer one that it does not take the place
        of. Raises OSError."""
        if self._state_file is None:
            return
        with _locked(f'{self._state_file}.lock'):
            kept = self.read()
            if instead or kept is None or kept.version <= control.version:
                self._replace(self._state_file, control)

    def _replace(self, state_file: str, control: _Control) -> None:
        state = {
            'instance_id': self._instance_id,
            'version': control.version,
            'suspended': control.suspended,
            'reason': control.reason,
            'at': _now(),
        }
        # mkstemp makes the file for this user only.
        handle, temporary = tempfile.mkstemp(prefix='.wardline-', dir=os.path.dirname(state_file))
        try:
            with open(handle, 'wb') as file:
                file.write(_to_json(state))
            os.replace(temporary, state_file)
        except BaseException:
            os.unlink(temporary)
            raise

    def sync(self) -> None:
        """Until here the state outlasts the process, but not a loss of power. Raises OSError."""
        if self._state_file is not None:
            with open(self._state_file, 'r+b') as file:
                os.fsync(file.fileno())

    def log(self, action: str, version: Optional[int], reason: Optional[str]) -> None:
        """Raises OSError."""
        if self._suspend_log is None:
            return
        entry: Dict[str, Any] = {'time': _now(), 'instance': self._instance_id, 'action': action}
        if version is not None:
            entry['version'] = version
        if reason is not None:
            entry['reason'] = reason
        # An agent that loses contact all day writes all day.
        if os.path.exists(self._suspend_log) and os.path.getsize(self._suspend_log) > _LOG_FILE_BYTES:
            os.replace(self._suspend_log, f'{self._suspend_log}.1')
        handle = _open_regular(self._suspend_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(handle, _to_json(entry) + b'\n')
        finally:
            os.close(handle)


def _open_regular(path: str, flags: int) -> int:
    """A file for this user only. A pipe or a device in its place would block the agent: it is refused. Raises OSError."""
    handle = os.open(path, flags | getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_CLOEXEC', 0), 0o600)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, 'not a regular file', path)


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Holds a lock that processes of one host share; where the system has none, goes on without. Waits
    for a moment only."""
    if fcntl is None:
        yield
        return
    handle = _open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        until = time.monotonic() + _LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                # A process that was frozen in between must not keep a suspension from being written.
                if time.monotonic() >= until:
                    break
                time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='milliseconds')


_CUT_OFF = 'cut off'


class _KillSwitch:
    """Whether the agent has to stand still. A suspension stays until a resume of a higher version. A suspension
    of a lower version counts as well: the state file may have been changed, or the service's database restored."""

    def __init__(
        self,
        fail_closed: bool,
        stale_after: float,
        record: _HostRecord,
        outbox: _Outbox,
        notices: _Notices,
        problems: _Problems,
        report_metrics: Callable[[], None],
        control: _Control,
        last_contact: Optional[float],
    ) -> None:
        self._fail_closed = fail_closed
        self._stale_after = stale_after
        self._record = record
        self._outbox = outbox
        self._notices = notices
        self._problems = problems
        self._report_metrics = report_metrics
        self._lock = threading.RLock()
        # Locked while a change is announced and written, so that changes keep their order. Reads do not wait.
        self._telling = threading.RLock()
        self._announced = ''
        self.control = control
        self.heard = False
        """The service itself has sent `control`; before that it may come from a file."""
        self.last_contact = last_contact
        self.event = threading.Event()
        if self.state()[0]:
            self.event.set()

    def state(self) -> Tuple[bool, Optional[str]]:
        """Suspended or not, and why."""
        with self._lock:
            if self.control.suspended:
                return True, self.control.reason or 'no reason was given'
            if not self._fail_closed or not self.is_stale():
                return False, None
            if self.last_contact is None:
                return True, 'no contact with the monitoring service yet'
            return True, f'no contact with the monitoring service for {self._stale_after:g} seconds'

    def is_stale(self) -> bool:
        return self.last_contact is None or time.monotonic() - self.last_contact > self._stale_after

    def seconds_until_stale(self) -> float:
        """Until silence makes a difference; infinite when it does not, or did already."""
        if not self._fail_closed or self.last_contact is None or self.is_stale():
            return math.inf
        return self.last_contact + self._stale_after - time.monotonic()

    def contradicts(self, control: _Control) -> bool:
        """Whether the service says "suspended" where an equal or higher version is known that says the opposite."""
        applied = self.control
        return control.suspended and not applied.suspended and control.version <= applied.version

    def hear(self, control: Optional[_Control] = None, instead_of: Optional[_Control] = None) -> bool:
        """Notes that the service was heard, and takes over a state if it is newer than the applied one, or a suspension
        if `instead_of` is still applied. True when it did; guards deny from the first moment on."""
        with self._telling:
            with self._lock:
                # At one moment: contact alone must not lift what the state that came with it keeps up.
                self.last_contact = time.monotonic()
                applied = self.control
                instead = control is not None and applied is instead_of and self.contradicts(control)
                newer = instead or (control is not None and control.version > applied.version)
                if control is not None:
                    if newer:
                        self.control = control
                    same = (control.version, control.suspended) == (applied.version, applied.suspended)
                    self.heard = self.heard or newer or same
            # Before listeners are notified: one may end the process, which must not come back unsuspended.
            written = newer and self._write_down('state file', self._record.write, self.control, instead)
            self.settle()
            if instead:
                self._outbox.put(_mismatch_notice(applied.version, self.control.version))
            if written:
                self._write_down('state file', self._record.sync)
            return newer

    def settle(self) -> None:
        """Notifies listeners when the agent is suspended, suspended for another reason, or resumed."""
        with self._telling:
            with self._lock:
                suspended, reason = self.state()
                before, self._announced = self._announced, self._situation(suspended)
            if suspended:
                self.event.set()
            else:
                self.event.clear()
            if before == self._announced:
                return
            cause = self._announced if suspended else before
            version = None if cause == _CUT_OFF else self.control.version
            if suspended:
                _log.warning('The agent is suspended: %s', _one_line(reason or '', 500))
                self._notices.put('suspend', reason)
                # Sums of the time before: reported minutes later, they would look like work of a suspended agent.
                self._report_metrics()
            else:
                _log.warning('The agent may go on.')
                self._notices.put('resume')
            self._write_down('suspend log', self._record.log, 'suspend' if suspended else 'resume', version, reason)

    def _situation(self, suspended: bool) -> str:
        if not suspended:
            return ''
        return f'version {self.control.version}' if self.control.suspended else _CUT_OFF

    def _write_down(self, what: str, write: Callable[..., None], *values: Any) -> bool:
        try:
            write(*values)
        except (OSError, ValueError) as error:
            self._problems.note(what, f'The {what} could not be written: {_describe(error)}')
            return False
        self._problems.over(what)
        return True


def _mismatch_notice(applied: int, service_version: int) -> Dict[str, Any]:
    return {
        'severity': 'critical',
        'event_type': 'control_version_mismatch',
        'description': f'This agent had applied control version {applied} as active, but the service suspended it at '
        f'version {service_version}; it is suspended',
        'metadata': {'applied_version': applied, 'service_version': service_version},
    }


# --- Contact with the service ----------------------------------------------------------------------------------------


class _Link:
    """Heartbeats, polls and the control stream: the loops of three threads."""

    def __init__(
        self,
        transport: _Transport,
        heartbeat: Mapping[str, str],
        stale_after: float,
        kill_switch: _KillSwitch,
        decoys: _DecoyChecks,
        problems: _Problems,
        public_keys: Optional[_PublicKeys],
        policies: '_Policies',
        approvals: '_Approvals',
        supervisor: Optional['_Supervisor'],
    ) -> None:
        self._policies = policies
        self._approvals = approvals
        self._supervisor = supervisor
        self._transport = transport
        self._heartbeat = heartbeat
        self._instance_id = heartbeat['instance_id']
        # Several polls fit into the time after which silence counts.
        self._longest_poll = stale_after / 3
        self._kill_switch = kill_switch
        self._decoys = decoys
        self._problems = problems
        self._public_keys = public_keys
        self._confirmed = 0
        self._answers_behind = 0
        self._contradicting: Optional[int] = None
        """The version of a suspension that contradicts what is applied, when the last poll reported one."""
        self._in_doubt = False
        """The stream or the last poll reported such a suspension, and the next poll must decide."""
        self._beat_tried = threading.Event()
        self._beat_now = threading.Event()
        self._beat_wanted = False
        self._poll_now = threading.Event()
        self._announced: Optional[int] = None
        """The version of a suspension that the header of an answer announced since the last poll began."""
        self._followed = -math.inf
        """When such a header last caused a poll."""
        self._stream: Optional[_Exchange] = None
        self._drills: Deque[str] = collections.deque(maxlen=1)
        """The latest drill that waits for its answer."""
        self._answering_drill = threading.Lock()
        self.polled = threading.Event()
        """Set after the first poll, whatever came of it."""
        self.stream_connected = False

    def begin(self) -> None:
        self._beat_tried.clear()
        self.polled.clear()

    def end(self) -> None:
        """Makes the loops look at `stopping` now."""
        for event in (self._beat_tried, self._beat_now, self._poll_now):
            event.set()
        stream = self._stream
        if stream is not None:
            stream.abort()

    # Heartbeat and confirmation

    def run_heartbeats(self, stopping: threading.Event) -> None:
        failures, ack_failures = 0, 0
        known = False
        due = ack_due = time.monotonic()
        while not stopping.is_set():
            now = time.monotonic()
            if now >= due or (self._beat_wanted and failures == 0):
                self._beat_wanted = False
                pause = self._beat()
                known = pause is None
                failures = 0 if known else failures + 1
                wait = _HEARTBEAT * random.uniform(0.9, 1.1) if pause is None else max(pause, _full_jitter(failures))
                due = time.monotonic() + wait
                self._beat_tried.set()
            elif self.is_unconfirmed() and now >= ack_due:
                ack_failures = 0 if self._confirm() else ack_failures + 1
                ack_due = time.monotonic() + (_full_jitter(ack_failures) if ack_failures else 0.0)
            until = min(due, ack_due) if self.is_unconfirmed() else due
            self._beat_now.wait(max(0.0, until - time.monotonic()))
            self._beat_now.clear()
        if known:
            self._beat(leaving=True)

    def _applied(self) -> int:
        """The version in effect: at once in the agent itself, in a supervisor once it has held or continued the tree."""
        return self._kill_switch.control.version if self._supervisor is None else self._supervisor.applied

    def is_unconfirmed(self) -> bool:
        return self._confirmed != self._applied()

    def confirm(self) -> None:
        """Confirms what the supervisor has applied, also if an earlier result of the same version was confirmed."""
        self._confirmed = -1
        self._beat_now.set()

    def _send(self, path: str, body: Mapping[str, Any], evidence: Optional[Mapping[str, Any]]) -> _Answer:
        """An older service refuses evidence of a supervisor, and receives the message without it. Raises _NoAnswer."""
        if evidence is not None:
            answer = self._transport.request(path, _to_json({**body, 'supervisor': evidence}))
            if answer.status != 400:
                return answer
        return self._transport.request(path, _to_json(body))

    def _beat(self, leaving: bool = False) -> Optional[float]:
        """Sends a heartbeat. None when it arrived, else how long to wait at least."""
        version, supervisor = self._applied(), self._supervisor
        try:
            heartbeat = {**self._heartbeat, 'control_version': version, **({'leaving': True} if leaving else {})}
            answer = self._send('/api/heartbeat', heartbeat, None if supervisor is None else supervisor.heartbeat())
        except _NoAnswer as error:
            self._problems.note('heartbeat', f'A heartbeat failed: {error}')
            return 0.0
        if answer.status != 200 or answer.json().get('ok') is not True:
            self._problems.note('heartbeat', f'A heartbeat was refused: {answer.refusal()}')
            return max(answer.retry_after(), _REFUSED if _needs_people(answer.status) else 0.0)
        self._problems.over('heartbeat')
        if supervisor is not None:
            if answer.headers.get('wardline-supervisor') == 'ignored':
                self._problems.note('evidence', _IGNORED.format(self._heartbeat['instance_id']))
            else:
                self._problems.over('evidence')
            # The evidence travels with the acknowledgement.
            if supervisor.evidence(version) is None:
                self._confirmed = version
            return None
        self._decoys.hear(answer)
        self._confirmed = version
        if not leaving:
            self._policies.hear(answer)
        return None

    def _confirm(self) -> bool:
        version = self._applied()
        evidence = None if self._supervisor is None else self._supervisor.evidence(version)
        try:
            answer = self._send(f'/api/instances/{self._instance_id}/ack', {'version': version}, evidence)
        except _NoAnswer as error:
            self._problems.note('confirmation', f'A confirmation failed: {error}')
            return False
        if answer.status != 200 or answer.json().get('ok') is not True:
            self._problems.note('confirmation', f'A confirmation was refused: {answer.refusal()}')
            if not _is_final(answer.status):
                return False
        else:
            self._problems.over('confirmation')
        if self._supervisor is None:
            self._confirmed = version
        elif evidence is self._supervisor.evidence(version):
            self._confirmed = version
            self._supervisor.wake()
        return True

    def _hear(self, control: Optional[_Control] = None) -> None:
        # Comments are not signed, and an older state may be a replay: neither shows that the service can be heard.
        if self._public_keys is not None and (control is None or control.version < self._kill_switch.control.version):
            return
        if self._kill_switch.hear(control):
            self._note_change()

    def _note_change(self) -> None:
        if self._supervisor is None:
            self._beat_now.set()
        else:
            self._supervisor.wake()

    # Poll

    def run_polls(self, stopping: threading.Event) -> None:
        self._beat_tried.wait(_REQUEST_TIMEOUT)
        while not stopping.is_set():
            announced, self._announced = self._announced, None
            if announced is not None and self._is_news(announced):
                self._followed = time.monotonic()
            pause = self._poll()
            if announced is not None and self._is_news(announced):
                # No answer, or one of a process of the service that has not heard of the kill.
                self._in_doubt = True
            self._kill_switch.settle()
            self.polled.set()
            if self._supervisor is not None:
                self._supervisor.wake()
            polled = time.monotonic()
            spread = random.uniform(0.8, 1.2)
            while not stopping.is_set():
                # The stream may come or go meanwhile.
                base = _POLL if self.stream_connected and not self._in_doubt else _POLL_WITHOUT_STREAM
                left = polled + max(pause, min(base, self._longest_poll) * spread) - time.monotonic()
                announced = self._announced
                if announced is not None and self._is_news(announced):
                    left = min(left, self._followed + _ANNOUNCED - time.monotonic())
                if left <= 0:
                    break
                self._poll_now.wait(min(left, self._kill_switch.seconds_until_stale()))
                self._poll_now.clear()
                self._kill_switch.settle()
                if self._supervisor is not None:
                    # Silence may have suspended the agent.
                    self._supervisor.wake()

    def _poll(self) -> float:
        """Asks for the state. Returns how long to wait at least before the next time."""
        # State from a file only did not come from the service, and may differ from it.
        heard, asked = self._kill_switch.heard, self._kill_switch.control
        known = {'If-None-Match': f'W/"{asked.version}"'} if heard else {}
        self._in_doubt = False
        try:
            answer = self._transport.request(f'/api/instances/{self._instance_id}/status', headers=known)
        except _NoAnswer as error:
            self._problems.note('poll', f'A poll failed: {error}')
            return 0.0
        control = asked if answer.status == 304 and heard else _control_of(answer)
        if control is None:
            self._problems.note('poll', f'A poll was refused: {answer.refusal()}')
            if answer.status == 404:
                # Unknown to the service; a heartbeat makes it known.
                self._beat_wanted = True
                self._beat_now.set()
            return max(answer.retry_after(), _REFUSED if answer.status in (401, 403) else 0.0)
        if self._public_keys is not None and not _is_signed_answer(answer, control, self._public_keys):
            self._problems.note('poll', f'A poll answer was ignored: {_UNSIGNED}')
            return 0.0
        self._decoys.hear(answer)
        is_again = self._contradicting == control.version
        self._contradicting = None
        if self._contradicts(control):
            self._contradicting = control.version
            self._hear_contradiction(control, asked, is_again)
        else:
            self._hear(control)
        self._compare(control.version)
        # A kill does not wait for policies. Those of an agent are for the client inside it.
        if self._supervisor is None:
            self._policies.hear(answer)
        return 0.0

    def hear_suspended(self, version: int) -> None:
        """The header of an answer says that the agent is suspended. It is not signed, so it only causes a poll."""
        if self._is_news(version):
            self._announced = version
            self._poll_now.set()

    def _is_news(self, version: int) -> bool:
        switch = self._kill_switch
        return version > switch.control.version or switch.contradicts(_Control(version, True))

    def _contradicts(self, control: _Control) -> bool:
        # What was signed before the state that the service sent last may be a replay.
        switch = self._kill_switch
        is_replay = self._public_keys is not None and switch.heard and control.version < switch.control.version
        return not is_replay and switch.contradicts(control)

    def _hear_contradiction(self, control: _Control, applied: _Control, is_again: bool) -> None:
        """A live "suspended" holds whatever is known. One process of the service may hear of a resume a second after
        another, so that what was heard from the service itself is given up only when a second poll says the same."""
        if self._kill_switch.heard and not is_again:
            self._in_doubt = True
            self._poll_now.set()
        elif self._kill_switch.hear(control, applied):
            self._note_change()

    def _compare(self, version: int) -> None:
        # Once is an answer that the stream has overtaken.
        self._answers_behind = self._answers_behind + 1 if version < self._kill_switch.control.version else 0
        if self._answers_behind < 2:
            self._problems.over('poll')
            return
        self._problems.note(
            'poll',
            'The service knows an older kill switch state than this agent applied: was its database restored? '
            'Its resumes do not count until their version is higher. Remove the state file and restart the agent.',
        )

    # Push

    def run_stream(self, stopping: threading.Event) -> None:
        self._beat_tried.wait(_REQUEST_TIMEOUT)
        failures = 0
        while not stopping.is_set():
            began = time.monotonic()
            pause = 0.0
            try:
                pause = self._listen(stopping)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not stopping.is_set():
                    self._problems.note('stream', f'The control stream broke: {_describe(error)}')
            finally:
                self.stream_connected = False
                self._poll_now.set()
            failures = 0 if time.monotonic() - began > _STREAM_SILENCE else failures + 1
            stopping.wait(max(pause, _full_jitter(failures)))

    def _listen(self, stopping: threading.Event) -> float:
        """Listens until the connection ends. Returns how long to wait at least before the next one."""
        understands = 'drill,policy,approval' if self._supervisor is None else 'drill'
        path = f'/api/instances/{self._instance_id}/control?understands={understands}'
        exchange = self._stream = _Exchange()
        exchange.extend(_REQUEST_TIMEOUT)
        threading.Thread(target=exchange.watch, name='wardline', daemon=True).start()
        try:
            accepts = {'Accept': 'text/event-stream'}
            with self._transport.open(exchange, path, _STREAM_SILENCE, None, accepts) as response:
                if response.status != 200:
                    answer = _Answer(response.status, _lower(response.headers), b'')
                    self._problems.note('stream', f'The control stream was refused: {response.status}')
                    return max(answer.retry_after(), _REFUSED if answer.status in (401, 403) else 0.0)
                return self._read_stream(response, exchange, stopping)
        finally:
            exchange.close()

    def _read_stream(self, response: Any, exchange: _Exchange, stopping: threading.Event) -> float:
        pause = 0.0
        data = ''
        while not stopping.is_set():
            # For a whole line: bytes that come one by one do not make a stream alive.
            exchange.extend(_STREAM_SILENCE)
            line = response.readline(_STREAM_LINE_BYTES)
            if not line.endswith(b'\n'):
                break
            if self.stream_connected:
                self._hear()
            field, _, value = line.decode('utf-8', 'replace').strip().partition(':')
            if field == 'data':
                data = value
            elif field == 'retry' and re.fullmatch(r' ?\d{1,9}', value):
                pause = min(int(value) / 1000 * random.uniform(0.8, 1.2), _STREAM_SILENCE)
            elif not line.strip() and data:
                # One forgery for each connection, so that a flood of them keeps no processor busy.
                if not self._take_message(data):
                    break
                data = ''
        return pause

    def _take_message(self, data: str) -> bool:
        """False when the message is not from the service."""
        message = _json_object(data)
        if message.get('action') == 'drill':
            return self._take_drill(message)
        if message.get('action') in ('policy', 'approval'):
            # It decides nothing: it only says when to ask.
            if message.get('instance_id') == self._instance_id:
                if message['action'] == 'policy':
                    self._policies.announce(message.get('version'))
                else:
                    self._approvals.notice(message.get('id'))
            return True
        control = _control_in(message, self._instance_id)
        if control is None:
            self._problems.note('stream', 'The control stream carried a message that cannot be read.')
            return True
        keys = self._public_keys
        if keys is not None and not keys.signed(control, message.get('issued_at'), message.get('signature_ed25519')):
            self._problems.note('stream', f'A message of the control stream was ignored: {_UNSIGNED}')
            return False
        applied = self._kill_switch.control
        if self._contradicts(control):
            self._hear_contradiction(control, applied, False)
        else:
            self._hear(control)
        if not self.stream_connected:
            self.stream_connected = True
            self._problems.over('stream')
        return True


    def _take_drill(self, message: Mapping[str, Any]) -> bool:
        """Answers a drill in the background: it is no business of the agent, whether that works or not."""
        nonce = message.get('nonce')
        if message.get('instance_id') != self._instance_id or not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
            return True
        keys, issued_at = self._public_keys, message.get('issued_at')
        if keys is not None and not keys.signed_drill(nonce, issued_at, message.get('signature_ed25519')):
            return False
        self._drills.append(nonce)
        self._answer_drills()
        return True

    def _answer_drills(self) -> None:
        # One at a time: a flood of drills is answered no faster.
        if self._drills and self._answering_drill.acquire(blocking=False):
            try:
                threading.Thread(target=self._answer_waiting, name='wardline', daemon=True).start()
            except RuntimeError:
                self._answering_drill.release()

    def _answer_waiting(self) -> None:
        try:
            while self._drills:
                evidence = None if self._supervisor is None else self._supervisor.drill()
                self._send(f'/api/instances/{self._instance_id}/drill', {'nonce': self._drills.popleft()}, evidence)
        except _NoAnswer:
            pass
        finally:
            self._answering_drill.release()
        # One may have come since.
        self._answer_drills()


_NONCE = re.compile(r'[\w-]{1,64}', re.ASCII)
_IGNORED = (
    'The agent is held, but the service ignores the evidence of this supervisor: create its key with '
    '`wardline keys create --scope agent --instance {} --supervisor`.'
)
_UNSIGNED = 'it has no valid signature. Does public_key belong to this service?'


def _needs_people(status: int) -> bool:
    """Whether trying again soon is pointless."""
    return 400 <= status < 500 and status not in (408, 425, 429)


def _control_of(answer: _Answer) -> Optional[_Control]:
    """The state that a poll received."""
    state = answer.json()
    suspended, reason = state.get('suspended'), state.get('reason')
    tag = re.fullmatch(r'(?:W/)?"(\d{1,15})"', answer.headers.get('etag', ''))
    if answer.status != 200 or tag is None or not isinstance(suspended, bool):
        return None
    return _Control(int(tag.group(1)), suspended, reason if isinstance(reason, str) else None)


_SIGNED = re.compile(r'version=(\d{1,15}); issued_at=([^;]+); signature=([\w-]+)', re.ASCII)


def _is_signed_answer(answer: _Answer, control: _Control, keys: _PublicKeys) -> bool:
    signed = _SIGNED.fullmatch(answer.headers.get('x-wardline-control', ''))
    return (
        signed is not None
        and int(signed.group(1)) == control.version
        and keys.signed(control, signed.group(2), signed.group(3))
    )


def _control_in(message: Mapping[str, Any], instance_id: str) -> Optional[_Control]:
    """The state that a message of the control stream tells, if it is for this instance."""
    version, action, reason = message.get('version'), message.get('action'), message.get('reason')
    if message.get('instance_id') != instance_id or not _is_version(version) or action not in ('suspend', 'resume'):
        return None
    return _Control(cast(int, version), action == 'suspend', reason if isinstance(reason, str) else None)


# --- Policies --------------------------------------------------------------------------------------------------------
#
# The decisions of packages/policy, by the same vectors. White space, numbers and cases are those of JavaScript.


class PolicySetFault(ValueError):
    """A set of policies that this version cannot read."""


_SPACE = '\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff'
_SPACES = '\t\n\v\f\r \u00a0\u1680' + ''.join(map(chr, range(0x2000, 0x200B))) + '\u2028\u2029\u202f\u205f\u3000\ufeff'
_PLAIN_DEPTH = 32
_CALL_NODES = 20_000
_ANSWER_NODES = 200_000
_HASH_DEPTH = 64
_HASH_LENGTH = 4 * 1024 * 1024
_CONDITION_LEAVES = 10_000
_DIRECTORY_VALUES = 5_000
_PATTERN_STEPS = 500
_PATTERN_WORK = 500_000
_DEFAULT_WAIT_MS = 600_000
_DAY_MS = 86_400_000
_DECISIONS = ('allow', 'ask', 'deny')


def _units(text: str) -> int:
    """The length in UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode('utf-16-le', 'surrogatepass')) // 2


def _number_text(value: Union[int, float]) -> str:
    """A number as ECMAScript prints it."""
    if isinstance(value, int):
        if abs(value) <= 2**53:
            return str(int(value))
        try:
            value = float(value)
        except OverflowError:
            return 'Infinity' if value > 0 else '-Infinity'
    if value != value:
        return 'NaN'
    if math.isinf(value):
        return 'Infinity' if value > 0 else '-Infinity'
    if value == 0:
        return '0'
    sign = '-' if value < 0 else ''
    mantissa, _, exponent = repr(abs(value)).partition('e')
    whole, _, fraction = mantissa.partition('.')
    digits = (whole + fraction).lstrip('0')
    # The place of the point, counted from the first digit.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip('0')
    if len(digits) <= point <= 21:
        return sign + digits + '0' * (point - len(digits))
    if 0 < point <= 21:
        return f'{sign}{digits[:point]}.{digits[point:]}'
    if -6 < point <= 0:
        return f'{sign}0.{"0" * -point}{digits}'
    shown = digits[0] + ('.' + digits[1:] if len(digits) > 1 else '')
    return f'{sign}{shown}e{"+" if point > 0 else "-"}{abs(point - 1)}'


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return 'true' if value else 'false'
    return value if isinstance(value, str) else _number_text(value)


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None:
        return 'null'
    return _scalar_text(key) if isinstance(key, (bool, int, float)) else str(key)


_NOTHING = object()


def _jsonable(value: Any) -> Any:
    """A value as JSON has it, on its first level; _NOTHING for what JSON leaves out."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return None
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, (os.PathLike, datetime.date, datetime.time, uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if isinstance(value, Mapping) or isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, type) or callable(value):
        return _NOTHING
    if _is_model(value):
        return value.model_dump()
    if isinstance(value, enum.Enum):
        return value.value
    fields = getattr(value, '__dict__', None)
    return fields if isinstance(fields, dict) else str(value)


def args_hash(args: Any) -> Optional[str]:
    """The SHA-256 of the arguments of a call, in hex, over their canonical JSON (RFC 8785): what an approval is bound to.
    None for arguments that cannot be hashed: nested more than 64 times, longer than 4 MiB, or unreadable. Such a call
    cannot be approved."""
    parts: List[str] = []
    try:
        left = _HASH_LENGTH
        for part in _canonical(args, 0):
            left -= len(part)
            if left < 0:
                return None
            parts.append(part)
        return hashlib.sha256(''.join(parts).encode('utf-8')).hexdigest()
    except Exception:  # noqa: BLE001 - values of the agent may raise at any touch
        return None


def _json_text(text: str) -> str:
    # A surrogate that belongs to no character is escaped, as JSON.stringify does.
    written = json.dumps(text, ensure_ascii=False)
    if not written.isascii():
        written = written.encode('utf-16', 'surrogatepass').decode('utf-16', 'surrogatepass')
        written = re.sub('[\ud800-\udfff]', lambda match: f'\\u{ord(match.group()):04x}', written)
    return written


def _canonical(given: Any, depth: int) -> Iterator[str]:
    if depth > _HASH_DEPTH:
        raise ValueError('too deep')
    value = _jsonable(given)
    if value is _NOTHING or value is None:
        yield 'null'
    elif isinstance(value, str):
        yield _json_text(value)
    elif isinstance(value, (bool, int, float)):
        text = _scalar_text(value)
        if text[-1] in 'yN':
            raise ValueError('an infinite number, which JSON writes as others')
        yield text
    elif isinstance(value, Mapping):
        yield '{'
        fields = [(_key_text(name), _jsonable(inner)) for name, inner in value.items()]
        written = [field for field in fields if field[1] is not _NOTHING]
        for at, (name, inner) in enumerate(sorted(written, key=lambda one: one[0].encode('utf-16-be', 'surrogatepass'))):
            yield f'{"," if at else ""}{_json_text(name)}:'
            yield from _canonical(inner, depth + 1)
        yield '}'
    else:
        yield '['
        for at, inner in enumerate(value):
            if at:
                yield ','
            yield from _canonical(inner, depth + 1)
        yield ']'


class _Copy:
    """Copies a value as JSON would write it, and never raises. `complete` is False if something was left out."""

    def __init__(self, most_nodes: int) -> None:
        self._left = most_nodes
        self.complete = True

    def of(self, value: Any) -> Any:
        try:
            copied = self._copy(value, 0)
            return None if copied is _NOTHING else copied
        except Exception:  # noqa: BLE001 - values of the agent may raise at any touch
            self.complete = False
            return None

    def _copy(self, given: Any, depth: int) -> Any:
        value = _jsonable(given)
        if value is None or value is _NOTHING or isinstance(value, (bool, int, float, str)):
            return value
        self._left -= 1
        if depth >= _PLAIN_DEPTH or self._left < 0:
            self.complete = False
            return _NOTHING
        if isinstance(value, Mapping):
            fields: Dict[str, Any] = {}
            for name, inner in value.items():
                self._left -= 1
                if self._left < 0:
                    self.complete = False
                    break
                copied = self._copy(inner, depth + 1)
                if copied is not _NOTHING:
                    fields[_key_text(name)] = copied
            return fields
        items: List[Any] = []
        for inner in value:
            self._left -= 1
            if self._left < 0:
                self.complete = False
                break
            copied = self._copy(inner, depth + 1)
            items.append(None if copied is _NOTHING else copied)
        return items


# Patterns: the part of RE2 that is the same everywhere, in linear time.


class _PatternFault(Exception):
    pass


_DIGITS = (48, 57)
_WORD_SIGNS = (48, 57, 65, 90, 95, 95, 97, 122)
_PATTERN_CLASSES = {'d': _DIGITS, 'w': _WORD_SIGNS, 's': (9, 10, 12, 13, 32, 32)}
_PATTERN_CONTROLS = {'t': 9, 'n': 10, 'v': 11, 'f': 12, 'r': 13}
_LAST_CODE_POINT = 0x10FFFF


def _inverted(ranges: Sequence[int]) -> Tuple[int, ...]:
    others: List[int] = []
    start = 0
    for at in range(0, len(ranges), 2):
        if ranges[at] > start:
            others += (start, ranges[at] - 1)
        start = ranges[at + 1] + 1
    return tuple(others + [start, _LAST_CODE_POINT]) if start <= _LAST_CODE_POINT else tuple(others)


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self._signs = pattern
        self._at = 0
        self._folded = False
        self._groups = 0

    def parse(self) -> Tuple[Any, ...]:
        node = self._choice()
        if self._at < len(self._signs):
            raise _PatternFault('has a ) without a (')
        return node

    @property
    def _next(self) -> str:
        return self._signs[self._at : self._at + 1]

    def _take(self, text: str) -> bool:
        there = self._signs.startswith(text, self._at)
        if there:
            self._at += len(text)
        return there

    def _choice(self) -> Tuple[Any, ...]:
        before = self._folded
        parts = [self._sequence()]
        while self._take('|'):
            parts.append(self._sequence())
        self._folded = before
        return parts[0] if len(parts) == 1 else ('choice', parts)

    def _sequence(self) -> Tuple[Any, ...]:
        parts: List[Tuple[Any, ...]] = []
        while self._next and self._next not in '|)':
            if self._take('(?i)'):
                self._folded = True
            else:
                parts.append(self._repeated(self._single()))
        return ('sequence', parts)

    def _repeated(self, part: Tuple[Any, ...]) -> Tuple[Any, ...]:
        times = self._quantifier()
        if times is None:
            return part
        if part[0] == 'assert':
            raise _PatternFault('repeats an anchor or \\b')
        self._take('?')
        if self._quantifier() is not None:
            raise _PatternFault('repeats a repetition')
        return ('repeat', part, times[0], times[1])

    def _quantifier(self) -> Optional[Tuple[int, Optional[int]]]:
        if self._take('*'):
            return 0, None
        if self._take('+'):
            return 1, None
        if self._take('?'):
            return 0, 1
        if self._next != '{':
            return None
        found = re.match(r'\{([0-9]{1,4})(?:(,)([0-9]{1,4})?)?\}', self._signs[self._at : self._at + 12])
        if found is None:
            raise _PatternFault('has a { that begins no {2} or {2,5}; a literal one is \\{')
        self._at += found.end()
        low = int(found.group(1))
        high = low if found.group(2) is None else None if found.group(3) is None else int(found.group(3))
        if low > 100 or (high or 0) > 100:
            raise _PatternFault('repeats more than 100 times')
        if high is not None and high < low:
            raise _PatternFault('has a repetition whose end is before its beginning')
        return low, high

    def _single(self) -> Tuple[Any, ...]:
        sign = self._signs[self._at]
        self._at += 1
        if sign == '(':
            return self._group()
        if sign == '[':
            return self._class()
        if sign == '.':
            return self._set((10, 10), True)
        if sign in '^$':
            return ('assert', 'start' if sign == '^' else 'end')
        if sign in '*+?{':
            raise _PatternFault(f'has a {sign} with nothing to repeat')
        if sign != '\\':
            return self._set((ord(sign), ord(sign)))
        for escape, what in (('b', 'boundary'), ('B', 'no boundary'), ('A', 'start'), ('z', 'end')):
            if self._take(escape):
                return ('assert', what)
        return self._set(self._escape())

    def _set(self, ranges: Sequence[int], negated: bool = False) -> Tuple[Any, ...]:
        return ('set', ranges, negated, self._folded)

    def _group(self) -> Tuple[Any, ...]:
        self._groups += 1
        if self._groups > 50:
            raise _PatternFault('has more than 50 groups')
        before = self._folded
        if self._take('?i:'):
            self._folded = True
        elif self._take('?P<'):
            while re.match('[0-9A-Za-z_]', self._next):
                self._at += 1
            if not self._take('>'):
                raise _PatternFault('has a group whose name has no end')
        elif not self._take('?:') and self._next == '?':
            supported = 'only (…), (?:…), (?i), (?i:…) and (?P<name>…) are'
            raise _PatternFault(f'has a group that is not supported: {supported}')
        node = self._choice()
        self._folded = before
        if not self._take(')'):
            raise _PatternFault('has a ( without a )')
        return node

    def _escape(self) -> Sequence[int]:
        sign = self._next
        self._at += 1
        if not sign:
            raise _PatternFault('ends in a backslash')
        named = _PATTERN_CLASSES.get(sign.lower()) if sign in 'dwsDWS' else None
        if named is not None:
            return named if sign.islower() else _inverted(named)
        if sign in _PATTERN_CONTROLS:
            return (_PATTERN_CONTROLS[sign], _PATTERN_CONTROLS[sign])
        if sign == 'x':
            return self._hexadecimal()
        if unicodedata.category(sign)[0] in 'LN':
            raise _PatternFault(f'has \\{sign}, which is not supported')
        return (ord(sign), ord(sign))

    def _hexadecimal(self) -> Sequence[int]:
        found = re.match(r'\{([0-9a-fA-F]{1,6})\}|([0-9a-fA-F]{2})', self._signs[self._at : self._at + 8])
        code = int(found.group(1) or found.group(2), 16) if found else -1
        if found is None or code > _LAST_CODE_POINT:
            raise _PatternFault('has \\x without a code such as \\x41 or \\x{1F600}')
        self._at += found.end()
        return (code, code)

    def _class(self) -> Tuple[Any, ...]:
        negated = self._take('^')
        ranges: List[int] = []
        while self._next != ']':
            if not self._next:
                raise _PatternFault('has a [ without a ]')
            if self._signs.startswith('[:', self._at):
                raise _PatternFault('has a class by name such as [:alpha:], which is not supported')
            low = self._in_class()
            if self._next != '-' or self._signs[self._at + 1 : self._at + 2] in ('', ']'):
                ranges += low
                continue
            self._at += 1
            high = self._in_class()
            single = len(low) == 2 and low[0] == low[1] and len(high) == 2 and high[0] == high[1]
            if not single or low[0] > high[0]:
                raise _PatternFault('has a range in [] that ends before it begins')
            ranges += (low[0], high[0])
        self._at += 1
        if not ranges:
            raise _PatternFault('has an empty []; a literal ] is \\]')
        return self._set(ranges, negated)

    def _in_class(self) -> Sequence[int]:
        sign = self._next
        self._at += 1
        return self._escape() if sign == '\\' else (ord(sign), ord(sign))


class _Pattern:
    """A compiled pattern. Raises _PatternFault."""

    def __init__(self, pattern: str) -> None:
        self.steps: List[Tuple[Any, ...]] = []
        self._emitted = 0
        self._emit(_PatternParser(pattern).parse())
        self.steps.append(('match',))
        # What the sets of the pattern say of a code point is asked for again and again.
        self._known: List[Dict[str, bool]] = [{} for _ in self.steps]

    def _refuse(self) -> None:
        raise _PatternFault(f'would cost too much: it has more than {_PATTERN_STEPS} steps, repetitions written out')

    def _emit(self, node: Tuple[Any, ...]) -> None:
        self._emitted += 1
        if self._emitted > 10 * _PATTERN_STEPS:
            self._refuse()
        kind = node[0]
        if kind in ('set', 'assert'):
            self._push(node)
        elif kind == 'sequence':
            for part in node[1]:
                self._emit(part)
        elif kind == 'choice':
            jumps: List[int] = []
            for part in node[1][:-1]:
                split = self._push(('split', 0))
                self._emit(part)
                jumps.append(self._push(('jump', 0)))
                self.steps[split] = ('split', len(self.steps))
            self._emit(node[1][-1])
            for jump in jumps:
                self.steps[jump] = ('jump', len(self.steps))
        else:
            _, part, low, high = node
            for _ in range(low):
                self._emit(part)
            if high is None:
                self._optional(part, True)
            for _ in range(low, high or 0):
                self._optional(part, False)

    def _optional(self, part: Tuple[Any, ...], repeated: bool) -> None:
        split = self._push(('split', 0))
        self._emit(part)
        if repeated:
            self._push(('jump', split))
        self.steps[split] = ('split', len(self.steps))

    def _push(self, step: Tuple[Any, ...]) -> int:
        if len(self.steps) >= _PATTERN_STEPS:
            self._refuse()
        self.steps.append(step)
        return len(self.steps) - 1

    def matches(self, text: str) -> bool:
        """Whether it matches anywhere: each step is taken at most once at each place."""
        steps = self.steps
        seen = [-1] * len(steps)
        sets: List[int] = []

        def follow(start: int, at: int, reached: List[int]) -> bool:
            stack = [start]
            while stack:
                index = stack.pop()
                if seen[index] == at:
                    continue
                seen[index] = at
                step = steps[index]
                kind = step[0]
                if kind == 'match':
                    return True
                if kind == 'set':
                    reached.append(index)
                elif kind == 'jump':
                    stack.append(step[1])
                elif kind == 'split':
                    stack += (step[1], index + 1)
                elif _assertion_holds(step[1], text, at):
                    stack.append(index + 1)
            return False

        for at in range(len(text) + 1):
            if follow(0, at, sets):
                return True
            if at == len(text):
                return False
            sign = text[at]
            reached: List[int] = []
            for index in sets:
                known = self._known[index]
                if sign not in known:
                    if len(known) > 1_000:
                        known.clear()
                    known[sign] = _in_set(steps[index], sign)
                if known[sign] and follow(index + 1, at + 1, reached):
                    return True
            sets = reached
        return False


def _assertion_holds(what: str, text: str, at: int) -> bool:
    if what == 'start':
        return at == 0
    if what == 'end':
        return at == len(text)
    before = at > 0 and text[at - 1] in _WORD_LETTERS
    after = at < len(text) and text[at] in _WORD_LETTERS
    return (before != after) == (what == 'boundary')


_WORD_LETTERS = frozenset('0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz')


def _in_set(step: Tuple[Any, ...], sign: str) -> bool:
    _, ranges, negated, folded = step
    cases = [sign, *(other for other in (sign.lower(), sign.upper()) if len(other) == 1)] if folded else [sign]
    there = any(ranges[at] <= ord(case) <= ranges[at + 1] for case in cases for at in range(0, len(ranges), 2))
    return there != negated


# Comparisons.


def _matches_glob(pattern: str, text: str) -> bool:
    """Compares text with a pattern in which `*` stands for any characters. Both in lower case."""
    parts = pattern.split('*')
    if len(parts) == 1:
        return pattern == text
    first, last = parts[0], parts[-1]
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in parts[1:-1]:
        found = text.find(part, at)
        if found < 0 or found + len(part) > end:
            return False
        at = found + len(part)
    return True


def _path_parts_of(path: str) -> Optional[List[str]]:
    if _units(path) > 32_768:
        return None
    parts: List[str] = []
    for part in path.replace('\\', '/').lower().split('/'):
        if part == '.' or (part == '' and parts):
            continue
        if part == '..' and parts and parts[-1] != '..':
            if len(parts) > 1 or parts[0] != '':
                parts.pop()
        else:
            parts.append(part)
    return None if len(parts) > 2_048 else parts


_HOMES = (['~'], ['', 'root'], ['', 'home', '*'], ['', 'users', '*'])


def _matches_path(patterns: Sequence[str], path: str) -> Union[bool, str]:
    parts = _path_parts_of(path)
    if parts is None:
        return 'unknown'
    wanted = [_path_parts_of(pattern) or [] for pattern in patterns]
    if any(_matches_whole(pattern, parts) for pattern in wanted):
        return True
    return 'unknown' if any(_may_match_within(pattern, parts) for pattern in wanted) else False


def _matches_whole(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if pattern[:1] == ['~']:
        return any(_matches_parts([*home, *pattern[1:]], parts) for home in _HOMES)
    return _matches_parts(pattern if pattern[:1] == [''] else ['**', *pattern], parts)


def _may_match_within(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether a relative path matches a pattern of whole paths in some working folder."""
    if not parts or pattern[:1] not in ([''], ['~']) or parts[0] in ('', pattern[0]):
        return False
    start = next((at for at, part in enumerate(parts) if part not in ('..', '~')), len(parts))
    rest = parts[start:]
    return any(
        at > 0 and not re.fullmatch(r'\*+', part) and _matches_parts(pattern[at:], rest)
        for at, part in enumerate(pattern)
    )


def _matches_parts(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    at = seen = start = 0
    wildcard = -1
    while seen < len(parts):
        if at < len(pattern) and pattern[at] == '**':
            wildcard = at
            at += 1
            start = seen
        elif at < len(pattern) and _matches_glob(pattern[at], parts[seen]):
            at += 1
            seen += 1
        elif wildcard >= 0:
            at = wildcard + 1
            start += 1
            seen = start
        else:
            return False
    while at < len(pattern) and pattern[at] == '**':
        at += 1
    return at == len(pattern)


_ADDRESS_LENGTH = 8_192
_SCHEME = re.compile(r'(?:[a-z][a-z0-9+.-]*:[\\/]+|[\\/]{2,})', re.IGNORECASE | re.ASCII)
_IPV4 = re.compile(r'(?:(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(?:\.(?!\Z)|\Z)){4}')


def _host_name(text: str) -> Optional[str]:
    """The host of an address, a mail address or a host name; None where programs read different hosts in it."""
    trimmed = text.strip(_SPACES)
    scheme = _SCHEME.match(trimmed)
    if scheme:
        is_long = _units(trimmed) > _ADDRESS_LENGTH
        rest = trimmed[scheme.end() : _ADDRESS_LENGTH]
        authority = re.split('[/?#]', rest, maxsplit=1)[0]
        if len(authority) == len(rest) and is_long:
            return None
        first = authority.split('\\', 1)[0]
        return None if '@' in authority[len(first) :] else _resolved_name(first[first.rfind('@') + 1 :])
    if _units(trimmed) > _ADDRESS_LENGTH:
        return None
    address = _bare_address(trimmed)
    if address is None:
        return None
    address = re.sub(r'\Amailto:', '', address, flags=re.IGNORECASE | re.ASCII)
    if '@' not in address:
        return _resolved_name(re.split(r'[\\/?#]', address, maxsplit=1)[0])
    is_mail = address.count('@') == 1 and not any(sign in _SPACES or sign in ',;<>()' for sign in address)
    return _resolved_name(address[address.index('@') + 1 :]) if is_mail else None


def _bare_address(text: str) -> Optional[str]:
    if not text.endswith('>'):
        return text
    begin = text.rfind('<')
    quoted = False
    at = 0
    while at < begin:
        if quoted and text[at] == '\\':
            at += 1
        elif text[at] == '"':
            quoted = not quoted
        elif not quoted and text[at] in '@,;<>':
            return None
        at += 1
    return None if begin < 0 or quoted else text[begin + 1 : -1].strip(_SPACES)


def _resolved_name(text: str) -> Optional[str]:
    host = unicodedata.normalize('NFKC', re.sub(r':[0-9]+\Z', '', text)).lower().replace('\u3002', '.')
    host = host[:-1] if host.endswith('.') else host
    if host.startswith('['):
        is_plain = re.fullmatch(r'\[[0-9a-f:]+\]', host) and not re.search(r'(?:\A\[|:)0|ffff|ff9b', host)
        return host if is_plain else None
    if any(not label or not all(_is_host_sign(sign) for sign in label) for label in host.split('.')):
        return None
    if re.fullmatch('[0-9]+|0x[0-9a-f]*', host[host.rfind('.') + 1 :]):
        return host if _IPV4.fullmatch(host) else None
    return host if '.' in host or host == 'localhost' else None


def _is_host_sign(sign: str) -> bool:
    return sign in '_-' or unicodedata.category(sign)[0] in 'LN'


def _addresses_in(text: str) -> List[str]:
    """Splits a list of mail addresses. An address of a page is one, whatever is in it."""
    if '@' not in text or not any(sign in text for sign in ',;\n') or _SCHEME.match(text.strip(_SPACES)):
        return [text]
    split = _split_list(text, True)
    return split if split is not None else _split_list(text, False) or []


def _split_list(text: str, with_quotes: bool) -> Optional[List[str]]:
    parts: List[str] = []
    start = at = 0
    quoted = False
    while at < len(text):
        sign = text[at]
        if quoted and sign == '\\':
            at += 1
        elif with_quotes and sign == '"':
            quoted = not quoted
        elif not quoted and sign in ',;\n':
            parts.append(text[start:at])
            start = at + 1
        at += 1
    if quoted:
        return None
    return [part for part in [*parts, text[start:]] if part.strip(_SPACES) != '']


def _matches_host(pattern: str, host: str) -> bool:
    return host.endswith(pattern[1:]) if pattern.startswith('*.') else _matches_glob(pattern, host)


_COMMAND_LENGTH = 65_536
_COMMAND_DEPTH = 8
_COMMANDS = 1_000
_COMMAND_TEXT = 2 * _COMMAND_LENGTH
_COMMAND_READINGS = 16
_SHELL_NESTING = 64
_WRAPPERS = frozenset(
    'sudo doas env nohup nice ionice time timeout stdbuf setsid xargs watch command exec builtin eval busybox chroot '
    'unshare flock taskset ssh parallel strace ltrace fakeroot caffeinate coproc'.split()
)
_WITH_OPERAND = frozenset(('chroot', 'flock', 'taskset', 'ssh'))
_SWITCHES = {'sudo': 'bEHiknSs', 'env': 'i0v', 'xargs': '0prtx', 'time': 'pv', 'command': 'pvV'}
_RUNNERS = frozenset(('su', 'runuser', 'script', 'flock'))
_SHELL_NAME = re.compile('(?:ba|z|da|k|a|c|tc|fi|mk|rba)?sh')
_KNOWN_FOLDER = re.compile(r'\$(?:HOME|PWD|\{HOME\}|\{PWD\})(?=/)')
_ASSIGNMENT = re.compile('[0-9A-Za-z_]+=')
_SHELL_WORDS = frozenset(('if', 'then', 'elif', 'else', 'do', 'while', 'until', '!'))
_REDIRECTION = re.compile(r'<<<|<<-?|<>|<&|>>|>&|>\||&>>|&>|<|>')
_ANSI_ESCAPE = re.compile(
    r'\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))', re.DOTALL
)
_ANSI_SIGNS = {
    'a': '\a', 'b': '\b', 'e': '\x1b', 'E': '\x1b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'
}  # fmt: skip


class _UnknownCommands(Exception):
    """It cannot be said which commands a line runs."""


class _CommandTexts(NamedTuple):
    """What a command line runs, in lower case: the whole line and each of its commands, and these alone."""

    lines: Sequence[str]
    commands: Sequence[str]
    writes: bool
    """Output goes into a file."""


_WRITING = re.compile('[0-9]?(?:&>>?|>>|>[|]|>&|<>|>)')


def _is_writing(word: str, target: str) -> bool:
    if _WRITING.fullmatch(word) is None or target == '/dev/null':
        return False
    return not (word.endswith('&') and re.fullmatch('[0-9]', target))


@functools.lru_cache(maxsize=1)
def _command_texts(line: str) -> Optional[_CommandTexts]:
    """None if it cannot be said which commands a line runs."""
    found = _Commands()
    try:
        found.read(line, 0)
    except _UnknownCommands:
        return None
    commands = list(dict.fromkeys(' '.join(words).lower() for words in found.found))
    return _CommandTexts(
        [line.strip(_SPACES).lower(), *commands],
        commands,
        any(_is_writing(word, target) for words in found.found for word, target in zip(words, [*words[1:], ''])),
    )


def _program_of(word: str) -> str:
    return word[word.rfind('/') + 1 :]


def _is_literal(word: str) -> bool:
    """Whether a word names one program, and not what a variable or the folder decides."""
    name = _program_of(word)
    plain = _KNOWN_FOLDER.sub('', word, count=1) if _KNOWN_FOLDER.match(word) else word
    return word in ('[', '[[') or (
        name != '' and not any(sign in '$`{}' for sign in plain) and not any(sign in '*?[]' for sign in name)
    )


class _Commands:
    """Takes command lines apart. Raises _UnknownCommands."""

    def __init__(self) -> None:
        self.found: List[List[str]] = []
        self._left = _COMMAND_TEXT

    def read(self, line: str, depth: int) -> None:
        if _units(line) > _COMMAND_LENGTH or depth > _COMMAND_DEPTH:
            raise _UnknownCommands
        splitter = _ShellSplitter(line)
        splitter.split()
        for command in splitter.commands:
            if len(command.all) > len(command.words):
                self._add(command.all)
            self._unwrap(command.words, command.has_input, depth)
            if any(_SHELL_NAME.fullmatch(_program_of(word)) for word in command.words):
                for text in command.texts:
                    self.read(text, depth + 1)
        for text in splitter.inner:
            self.read(text, depth + 1)

    def _add(self, words: Sequence[str]) -> None:
        self._left -= sum(_units(word) + 1 for word in words)
        if len(self.found) >= _COMMANDS or self._left < 0:
            raise _UnknownCommands
        self.found.append(list(words))

    def _unwrap(self, words: Sequence[str], has_input: bool, depth: int) -> None:
        """Adds a command, and the one that it runs: each is what a pattern may speak of."""
        if depth > _COMMAND_DEPTH:
            raise _UnknownCommands
        numbered = enumerate(words)
        start = next((at for at, word in numbered if not _ASSIGNMENT.match(word) and word not in _SHELL_WORDS), -1)
        if start < 0:
            return
        command = list(words[start:])
        program = _program_of(command[0])
        if command[0] == '{}':
            return
        if not _is_literal(command[0]):
            raise _UnknownCommands
        self._add([program, *command[1:]])
        if program == 'trap':
            self.read(command[1] if len(command) > 1 else '', depth + 1)
        elif program == 'git':
            for word in command:
                alias = re.match(r'alias\.[^=]*=!(.*)\Z', word, re.DOTALL)
                if alias:
                    self.read(alias.group(1), depth + 1)
        elif program == 'eval':
            self.read(' '.join(command[1:]), depth + 1)
        elif not self._run_text(program, command, has_input, depth):
            if program == 'find':
                self._unwrap_find(command, depth)
            elif program in _WRAPPERS:
                self._unwrap_wrapper(program, command, has_input, depth)

    def _run_text(self, program: str, command: Sequence[str], has_input: bool, depth: int) -> bool:
        """Reads the text of `sh -c`. Whether nothing else is to be read of the command."""
        is_shell = _SHELL_NAME.fullmatch(program) is not None
        if not is_shell and program not in _RUNNERS:
            return False
        numbered = enumerate(command)
        flag = next(
            (at for at, word in numbered if at and (re.match('-[0-9A-Za-z_]*c', word) or word == '--command')), -1
        )
        text = None if flag < 0 else next((word for word in command[flag + 1 :] if not word.startswith('-')), None)
        if text is not None:
            self.read(text, depth + 1)
            return True
        if is_shell and not has_input and _reads_input(command):
            raise _UnknownCommands
        return is_shell

    def _unwrap_find(self, command: Sequence[str], depth: int) -> None:
        for at, word in enumerate(command):
            if re.fullmatch('-(?:exec|ok)(?:dir)?', word):
                rest = list(command[at + 1 :])
                end = next((place for place, each in enumerate(rest) if each in (';', '+')), len(rest))
                self._unwrap(rest[:end], False, depth + 1)

    def _unwrap_wrapper(self, program: str, command: Sequence[str], has_input: bool, depth: int) -> None:
        operands = 1 if program in _WITH_OPERAND else 0
        readings = 0
        for at in range(1, len(command)):
            word = command[at]
            if any(sign in _SPACES for sign in word):
                self.read(re.sub(r'\A(?:-S|--split-string=)', '', word), depth + 1)
                readings += 1
                if readings > _COMMAND_READINGS:
                    raise _UnknownCommands
                continue
            if word.startswith('-') or _ASSIGNMENT.match(word):
                continue
            readings += 1
            if readings > _COMMAND_READINGS:
                raise _UnknownCommands
            self._unwrap(command[at:], has_input, depth + 1)
            if re.fullmatch('[0-9.]+[smhd]?', word) or _may_take_value(program, command[at - 1]):
                continue
            operands -= 1
            if operands < 0:
                break


def _may_take_value(program: str, option: str) -> bool:
    if not option.startswith('-') or option == '--':
        return False
    if re.match('-[0-9A-Za-z_].*[^A-Za-z]', option, re.DOTALL) or '=' in option:
        return False
    return not all(letter in _SWITCHES.get(program, '') for letter in option[1:])


def _reads_input(command: Sequence[str]) -> bool:
    """Whether a shell takes its commands from standard input: it has no script, or `-s`."""
    options = command[1:]
    if '--version' in options or '--help' in options:
        return False
    return all(word.startswith('-') for word in options) or any(re.match('-[0-9A-Za-z_]*s', word) for word in options)


class _ShellCommand:
    def __init__(self) -> None:
        self.words: List[str] = []
        self.all: List[str] = []
        self.has_input = False
        self.texts: List[str] = []


class _ShellSplitter:
    """Splits a line into commands and words, without looking at what they do."""

    def __init__(self, line: str) -> None:
        self.commands: List[_ShellCommand] = []
        self.inner: List[str] = []
        self._line = line
        self._command = _ShellCommand()
        self._word: Optional[str] = None
        self._redirected: Optional[str] = None
        self._open = 0

    def split(self) -> None:
        line = self._line
        at = 0
        while at < len(line):
            sign = line[at]
            following = line[at + 1 : at + 2]
            if sign == '\\':
                at += 1
                if following != '\n':
                    self._append(following)
            elif sign == "'":
                end = line.find("'", at + 1)
                self._append(line[at + 1 :] if end < 0 else line[at + 1 : end])
                at = len(line) if end < 0 else end
            elif sign == '$' and following == "'":
                text, at = _ansi_quoted(line, at + 2)
                self._append(text)
            elif sign == '"' or (sign == '$' and following == '"'):
                start = at + 1 if sign == '"' else at + 2
                at = _end_of_quoted(line, start)
                text = line[start:at]
                self.inner += _substitutions_of(text)
                self._append(re.sub(r'\\(["\\$`\n])', lambda found: found.group(1).replace('\n', ''), text))
            elif sign == '`' or (following == '(' and sign in '$<>'):
                end = _end_of_substitution(line, at)
                self.inner += _commands_in(line, at, end)
                self._append(line[at : end + 1])
                at = end
            elif sign in '<>' or (sign == '&' and following == '>'):
                found = _REDIRECTION.match(line[at : at + 3])
                at += self._redirect(found.group() if found else sign)
            elif sign == '#' and self._word is None:
                end = line.find('\n', at)
                at = len(line) if end < 0 else end - 1
            elif sign in _SPACES and sign != '\n':
                self._end_word()
            elif sign in '\n;&|()' or self._is_group(sign, following):
                self._end_command(sign)
            else:
                self._append(sign)
            at += 1
        self._end_command('')

    def _is_group(self, sign: str, following: str) -> bool:
        if self._word is not None:
            return False
        if sign == '{':
            return not self._command.words and (following == '' or following in _SPACES)
        return sign == '}' and (following == '' or following in _SPACES or following in ';&|)<>')

    def _append(self, text: str) -> None:
        self._word = (self._word or '') + text

    def _redirect(self, operator: str) -> int:
        number = self._word if self._word is not None and re.fullmatch('[0-9]+', self._word) else ''
        if number:
            self._word = None
        self._end_word()
        self._redirected = number + operator
        if operator.startswith('<'):
            self._command.has_input = True
        return len(operator) - 1

    def _end_word(self) -> None:
        if self._word is None:
            return
        if self._redirected is None:
            self._command.words.append(self._word)
        else:
            if self._redirected.endswith('<<<'):
                self._command.texts.append(self._word)
            self._command.all.append(self._redirected)
        self._command.all.append(self._word)
        self._word = self._redirected = None

    def _end_command(self, sign: str) -> None:
        self._end_word()
        self._redirected = None
        is_pattern = sign == ')' and self._open == 0
        if sign == '(':
            self._open += 1
        elif sign == ')' and self._open > 0:
            self._open -= 1
        if self._command.all and not is_pattern:
            self.commands.append(self._command)
        self._command = _ShellCommand()


def _end_of_quoted(line: str, at: int, nesting: int = 0) -> int:
    if nesting > _SHELL_NESTING:
        raise _UnknownCommands
    while at < len(line):
        if line[at] == '\\':
            at += 1
        elif line[at] == '"':
            return at
        elif line[at] == '`' or line.startswith('$(', at):
            at = _end_of_substitution(line, at, nesting + 1)
        at += 1
    return len(line)


def _end_of_substitution(line: str, start: int, nesting: int = 0) -> int:
    if nesting > _SHELL_NESTING:
        raise _UnknownCommands
    is_backticks = line[start] == '`'
    depth = 0
    at = start + 1
    while at < len(line):
        sign = line[at]
        if sign == '\\':
            at += 1
        elif is_backticks:
            if sign == '`':
                return at
        elif sign == "'":
            end = line.find("'", at + 1)
            at = len(line) if end < 0 else end
        elif sign == '"':
            at = _end_of_quoted(line, at + 1, nesting + 1)
        elif sign == '(':
            depth += 1
        elif sign == ')':
            depth -= 1
            if depth == 0:
                return at
        at += 1
    return len(line)


def _commands_in(line: str, start: int, end: int) -> List[str]:
    text = line[start + 1 if line[start] == '`' else start + 2 : end]
    arithmetic = line[start] == '$' and text.startswith('(') and _end_of_substitution(f'${text}', 0) == len(text)
    return _substitutions_of(text) if arithmetic else [text]


def _substitutions_of(text: str) -> List[str]:
    found: List[str] = []
    at = 0
    while at < len(text):
        if text[at] == '\\':
            at += 1
        elif text[at] == '`' or text.startswith('$(', at):
            end = _end_of_substitution(text, at)
            found += _commands_in(text, at, end)
            at = end
        at += 1
    return found


def _ansi_quoted(line: str, start: int) -> Tuple[str, int]:
    """A text in `$'…'` as bash reads it, and where it ends."""
    end = start
    while end < len(line) and line[end] != "'":
        end += 2 if line[end] == '\\' else 1

    def sign_of(found: 're.Match[str]') -> str:
        short, four, eight, octal, sign = found.groups()
        if sign is not None:
            return _ANSI_SIGNS.get(sign, sign)
        code = int(octal, 8) % 256 if octal is not None else int(short or four or eight, 16)
        return chr(code) if code <= 0x10FFFF else ''

    return _ANSI_ESCAPE.sub(sign_of, line[start:end]), end


# Conditions. A truth is True, False or 'unknown'.

_MODIFIERS = ('glob', 're', 'in', 'host', 'path', 'command', 'lt', 'lte', 'gt', 'gte')
_LIMITS: Dict[str, Callable[[float, float], bool]] = {
    'lt': lambda value, limit: value < limit,
    'lte': lambda value, limit: value <= limit,
    'gt': lambda value, limit: value > limit,
    'gte': lambda value, limit: value >= limit,
}
_NUMBER_TEXT = re.compile(f'[{_SPACE}]*-?[0-9]+(?:\\.[0-9]+)?[{_SPACE}]*')


def _scalars_of(value: Any, found: List[Any]) -> List[Any]:
    if isinstance(value, (str, int, float)):
        found.append(value)
    elif isinstance(value, (dict, list)) and len(found) <= _CONDITION_LEAVES:
        for inner in value.values() if isinstance(value, dict) else value:
            _scalars_of(inner, found)
    return found


def _argument_of(args: Dict[str, Any], name: str) -> Any:
    if name == '*':
        return args
    own = [args[name]] if name in args else []
    if '.' not in name:
        return own
    values: List[Any] = [args]
    for part in name.split('.'):
        flat = [inner for value in values for inner in (value if isinstance(value, list) else [value])]
        values = [value[part] for value in flat if isinstance(value, dict) and part in value]
    # An argument whose name has a dot must not hide the nested one that the tool reads.
    return own + values


def _number_of(value: Any) -> Optional[float]:
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, str):
            number = float(value.strip(_SPACES)) if _NUMBER_TEXT.fullmatch(value) else math.nan
        else:
            number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _amount_of(args: Dict[str, Any], name: str) -> Optional[float]:
    values = _scalars_of(_argument_of(args, name), [])
    if not values or len(values) > _CONDITION_LEAVES:
        return None
    total = 0.0
    for value in values:
        number = _number_of(value)
        if number is None or number < 0:
            return None
        total += number
    return total


@dataclass(frozen=True)
class _Comparer:
    """Compares values with those of a condition, other than patterns."""

    modifier: str
    wanted: Sequence[Any]

    @functools.cached_property
    def _texts(self) -> Sequence[str]:
        texts = [_scalar_text(other) for other in self.wanted]
        return texts if self.modifier == 'in' else [text.lower() for text in texts]

    @functools.cached_property
    def _whole(self) -> FrozenSet[str]:
        return frozenset(text for text in self._texts if self.modifier == 'in' or '*' not in text)

    @functools.cached_property
    def _globs(self) -> Sequence[str]:
        return [text for text in self._texts if '*' in text]

    @functools.cached_property
    def cost(self) -> int:
        """How many comparisons a value takes, beside one for all that are compared as a whole."""
        if self.modifier == 'in' or self.modifier in _LIMITS:
            return 0
        return len(self._texts) if self.modifier == 'path' else len(self._globs)

    def _matches(self, text: str) -> bool:
        return text in self._whole or any(_matches_glob(glob, text) for glob in self._globs)

    def compare(self, value: Any, each: bool) -> Union[bool, str]:
        """Of a command line one command has to match, with `each` each of them."""
        limit = _LIMITS.get(self.modifier)
        if limit is not None:
            number = _number_of(value)
            return 'unknown' if number is None else any(limit(number, float(other)) for other in self.wanted)
        text = _scalar_text(value)
        if self.modifier == 'in':
            return text in self._whole
        if self.modifier == 'path':
            return _matches_path(self._texts, text)
        if self.modifier == 'host':
            host = _host_name(text)
            if host is None:
                return 'unknown'
            return host in self._whole or any(_matches_host(glob, host) for glob in self._globs)
        if self.modifier == 'command':
            found = _command_texts(text)
            if found is None:
                return 'unknown'
            if not each:
                return any(map(self._matches, found.lines))
            return 'unknown' if found.writes else bool(found.commands) and all(map(self._matches, found.commands))
        return self._matches(text.lower())


_COMPARE_WORK = 1_200_000
_VALUE_COST = {'host': 1_000, 'path': 1_000}


@dataclass(frozen=True)
class _Condition:
    name: str
    modifier: str
    negated: bool
    wanted: Sequence[Any]
    patterns: Sequence[_Pattern]

    @functools.cached_property
    def _comparer(self) -> _Comparer:
        return _Comparer(self.modifier, self.wanted)

    def evaluate(self, args: Dict[str, Any], for_each: bool) -> Union[bool, str]:
        """Whether any value meets it; with `for_each`, as a rule that allows needs it, whether each of them does."""
        values = [value for value in _scalars_of(_argument_of(args, self.name), []) if value != '']
        if len(values) > _CONDITION_LEAVES:
            return 'unknown'
        unknown = met = False
        left = _PATTERN_WORK if self.modifier == 're' else _COMPARE_WORK
        steps = sum(len(pattern.steps) for pattern in self.patterns)
        for value in values:
            for one in _addresses_in(_scalar_text(value)) if self.modifier == 'host' else [value]:
                text = _scalar_text(one)
                if self.modifier == 're':
                    left -= steps * len(text)
                else:
                    left -= (_VALUE_COST.get(self.modifier, 250) + _units(text)) * (1 + self._comparer.cost)
                if left < 0:
                    return 'unknown'
                if self.modifier == 're':
                    truth: Union[bool, str] = any(pattern.matches(text) for pattern in self.patterns)
                else:
                    truth = self._comparer.compare(one, for_each != self.negated)
                if truth == 'unknown':
                    unknown = unknown or self.name != '*' or self.modifier in ('command', 'path')
                elif truth == self.negated and for_each:
                    return False
                elif truth != self.negated:
                    if not for_each:
                        return True
                    met = True
        return 'unknown' if unknown else met


_ACTS_ON = {
    'command': ('command', 'cmd', 'script'),
    'path': ('file_path', 'filePath', 'notebook_path', 'path', 'filename', 'file'),
    'host': ('url', 'uri'),
}
_TOOL_TEXT = re.compile(f'([^{_SPACE}()]+)(?:\\((.*)\\))?', re.DOTALL)


@dataclass(frozen=True)
class _ToolPattern:
    name: str
    modifier: Optional[str]
    wanted: str

    @functools.cached_property
    def _comparer(self) -> _Comparer:
        return _Comparer(self.modifier or '', [self.wanted])


def _matches_tools(patterns: Sequence[_ToolPattern], call: '_PolicyCall', for_each: bool) -> Union[bool, str]:
    """Whether a call is one of these tools; with `for_each` each command of a line has to match one of the patterns."""
    name = call.tool.lower()
    named = [pattern for pattern in patterns if _matches_glob(pattern.name, name)]
    if not patterns or any(pattern.modifier is None for pattern in named):
        return True
    found: Union[bool, str] = False
    for modifier, arguments in _ACTS_ON.items():
        meant = [pattern for pattern in named if pattern.modifier == modifier]
        if not meant:
            continue
        comparers = [pattern._comparer for pattern in meant]
        if for_each:
            comparers = [_Comparer(modifier, [pattern.wanted for pattern in meant])]
        values = [call.args[name] for name in arguments if call.args.get(name) not in (None, '')]
        truths = [
            one.compare(value, for_each) if isinstance(value, str) else 'unknown' for value in values for one in comparers
        ]
        together: Union[bool, str] = 'unknown'
        if call.complete and truths:
            if (not for_each) in truths:
                together = not for_each
            elif 'unknown' not in truths:
                together = for_each
        if together is True:
            return True
        if together == 'unknown':
            found = 'unknown'
    return found


def _tool_pattern(text: str) -> Optional[_ToolPattern]:
    found = _TOOL_TEXT.fullmatch(text.strip(_SPACES))
    if found is None or found.group(2) == '':
        return None
    name, inner = found.groups()
    if inner is None or inner == '*':
        return _ToolPattern(name.lower(), None, '')
    if inner.startswith('domain:'):
        modifier, wanted = 'host', inner[len('domain:') :]
    elif re.search('^bash\\Z|shell|exec|terminal|powershell', name, re.IGNORECASE | re.ASCII):
        modifier, wanted = 'command', inner
    else:
        modifier, wanted = 'path', inner
    wanted = wanted[:-2] + '*' if wanted.endswith(':*') else wanted
    return _ToolPattern(name.lower(), modifier, wanted[1:] if wanted.startswith('//') else wanted)


# What a session remembers.

_SEPARATORS = re.compile('[' + _SPACE + '"\'`,;()\\[\\]{}<>|*\u2018\u2019\u201c\u201d\u00ab\u00bb]+')
_EDGES = '.:!?=-'
_SEEN_ADDRESS = re.compile(
    '(?<![0-9A-Za-z_\u017f\u212a])(?:https?://|www\\.)[^' + _SPACE + '"\'<>`|\\\\^{}]{1,2000}', re.IGNORECASE
)
_MEMORY_WORDS = 14_000
_MEMORY_VALUES = 6_000
_MEMORY_ADDRESSES = 6_000
_MEMORY_TOOLS = 128
_MEMORY_TOOL_TEXT = 8_000
_MEMORY_READ = 1_048_576
_DIGEST = 6


def _normalized(text: str) -> str:
    return unicodedata.normalize('NFC', text).lower().strip(_SPACES)


def _words_of(text: str) -> List[str]:
    return [word for word in (part.strip(_EDGES) for part in _SEPARATORS.split(_normalized(text))) if word]


def _proves_nothing(words: Sequence[str]) -> bool:
    return all(re.fullmatch('[0-9]{1,3}', word) for word in words)


def _leaves_of(value: Any, depth: int = 0) -> List[str]:
    if isinstance(value, str):
        return [value] if value.strip(_SPACES) else []
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return [_number_text(value)]
    if not isinstance(value, (dict, list)) or depth >= _PLAIN_DEPTH:
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [leaf for one in inner for leaf in _leaves_of(one, depth + 1)]


def _in_words(text: str) -> str:
    return f' {" ".join(_words_of(text))} '


def _whole_values(answer: Any) -> Set[str]:
    """The whole values of an answer, normalized: a part of a value is none."""
    if isinstance(answer, str):
        values = _values_of_text(answer) if _units(answer) <= 262_144 else []
    else:
        values = _leaves_of(answer)
    return {_normalized(value) for value in values[:_DIRECTORY_VALUES]}


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _values_of_text(text: str) -> List[str]:
    trimmed = text.strip(_SPACES)
    if trimmed[:1] in ('[', '{', '"'):
        try:
            parsed = json.loads(
                trimmed,
                parse_constant=_no_constant,
                parse_int=lambda digits: int(digits) if len(digits) < 17 else float(digits),
            )
            return _leaves_of(parsed)
        except RecursionError:
            return []
        except ValueError:
            return _quoted_values(trimmed)
    return _values_of_lines(trimmed)


_BARE = re.compile('[^' + _SPACE + ',:\'"\\[\\]{}()]+')
_SKIPPED = re.compile('[' + _SPACE + ',:\\[\\]{}()]+')
_QUOTED = {sign: re.compile(f'(?:[^{sign}\\\\]|\\\\.)*', re.DOTALL) for sign in '\'"'}


def _quoted_values(text: str) -> List[str]:
    """Values as Python prints them."""
    values: List[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        if sign in '\'"':
            found = _QUOTED[sign].match(text, at + 1)
            end = found.end() if found else at + 1
            # What is not closed was cut: the rest of the text is no value.
            if end >= len(text) or text[end] != sign:
                break
            values.append(re.sub(r'\\(.)', r'\1', text[at + 1 : end], flags=re.DOTALL))
            at = end + 1
        else:
            skipped = _SKIPPED.match(text, at)
            if skipped:
                at = skipped.end()
            else:
                bare = _BARE.match(text, at)
                end = bare.end() if bare else at + 1
                values.append(text[at:end])
                at = end
    return values


_VALUE_LINE = re.compile(
    f'((?:[{_SPACE}]*-[{_SPACE}])*)[{_SPACE}]*(?:([^{_SPACE}:][^:]{{0,60}}?):(?:[{_SPACE}]+|\\Z))?(.*)\\Z', re.DOTALL
)
_BLOCK = re.compile('[|>][+-]?[0-9]?')
_LIST_ITEM = re.compile(f'[{_SPACE}]*-[{_SPACE}]')
_KEYED = re.compile(f'[{_SPACE}]*[^{_SPACE}:][^:]*:(?:[{_SPACE}]|\\Z)')


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(_SPACES))


def _values_of_lines(text: str) -> List[str]:
    lines = re.split('\r\n|\n|\r', text)
    values: List[str] = []
    at = -1
    while at + 1 < len(lines):
        at += 1
        line = lines[at]
        if not line.strip(_SPACES):
            continue
        found = _VALUE_LINE.match(line)
        assert found is not None
        dashes, key, rest = found.groups()
        indent = _indent_of(line) if key is None else len(dashes) or _indent_of(line)
        value = rest.strip(_SPACES)
        quote = value[:1] if value[:1] in ('"', "'") else ''
        if quote:
            last = value[1:]
            while not _is_closing(last, quote) and at + 1 < len(lines):
                at += 1
                last = lines[at].strip(_SPACES)
                value += f'\n{last}'
            if _is_closing(last, quote):
                value = value[1:-1]
        elif key is not None or dashes:
            block = _BLOCK.match(value) is not None
            while at + 1 < len(lines) and _continues(lines[at + 1], indent, block, value):
                at += 1
                value += f'\n{lines[at].strip(_SPACES)}'
        if value:
            values.append(value)
        if key is not None and not quote and '\n' not in value:
            values.append(line.strip(_SPACES))
    return values


def _is_closing(line: str, quote: str) -> bool:
    if quote == "'":
        return (len(line) - len(line.rstrip("'"))) % 2 == 1
    inner = line[:-1]
    return line.endswith('"') and (len(inner) - len(inner.rstrip('\\'))) % 2 == 0


def _continues(line: str, indent: int, block: bool, value: str) -> bool:
    if not line.strip(_SPACES):
        return True
    if _indent_of(line) <= indent:
        return False
    return block or (value != '' and not _LIST_ITEM.match(line) and not _KEYED.match(line))


def _address_text(text: str) -> str:
    address = re.sub('^https?://', '', _normalized(text))
    return address.partition('#')[0].rstrip('.,;:!?)]/')


class _Tally:
    """What the limits of a session have counted. Entries are joined rather than forgotten, as the later of them."""

    def __init__(self) -> None:
        self._entries: Dict[bytes, List[Tuple[int, float]]] = {}

    def sum(self, key: bytes, within_ms: int, at: int) -> float:
        total = 0.0
        for time_ms, amount in self._entries.get(key, ()):
            if time_ms > at - within_ms:
                total += amount
        return total

    def add(self, key: bytes, within_ms: int, at: int, amount: float) -> None:
        recent = [entry for entry in self._entries.pop(key, ()) if entry[0] > at - within_ms]
        recent.append((at, amount))
        if len(recent) > 50:
            recent = _joined(recent, [math.floor(time_ms / (within_ms / 50)) for time_ms, _ in recent])
        self._entries[key] = recent
        total = sum(len(entries) for entries in self._entries.values())
        while total > 800:
            longest = max(self._entries, key=lambda one: len(self._entries[one]))
            entries = self._entries[longest]
            if len(entries) == 1:
                del self._entries[next(iter(self._entries))]
                total -= 1
                continue
            joined = _joined(entries, [place // 2 for place in range(len(entries))])
            self._entries[longest] = joined
            total -= len(entries) - len(joined)


def _joined(entries: Sequence[Tuple[int, float]], groups: Sequence[int]) -> List[Tuple[int, float]]:
    joined: List[Tuple[int, float]] = []
    last: Optional[int] = None
    for entry, group in zip(entries, groups):
        if joined and group == last:
            joined[-1] = (max(joined[-1][0], entry[0]), joined[-1][1] + entry[1])
        else:
            joined.append(entry)
        last = group
    return joined


class SessionMemory:
    """What a session has met: the words of its prompts, the whole values that directories answered, the addresses that
    it saw, which tools answered, and what limits have counted. Texts are kept as hashes, at most 256 KiB. What the model
    says is never remembered. Not for several threads at a time: `PolicySet` is called under a lock."""

    def __init__(self) -> None:
        self._key = os.urandom(16)
        self._tools: Dict[str, Set[str]] = {}
        self._tool_text = 0
        self._words = b''
        self._values: Dict[bytes, str] = {}
        self._addresses: Dict[bytes, None] = {}
        self._tally = _Tally()
        self.has_more_tools = False

    def _hash(self, text: str) -> bytes:
        return hashlib.sha256(self._key + text.encode('utf-8', 'surrogatepass')).digest()[:_DIGEST]

    def answered(self, condition: Callable[[str, Set[str]], bool]) -> Optional[str]:
        """The first tool that answered and meets a condition."""
        return next((name for name, args in self._tools.items() if condition(name, args)), None)

    def prompt(self, text: str) -> None:
        """Remembers what a person wrote."""
        # An empty word, so that no destination is made up from the end of one prompt and the beginning of the next.
        words = b''.join(map(self._hash, ['', *_words_of(text)[-_MEMORY_WORDS:]]))
        self._words = (self._words + words)[-_MEMORY_WORDS * _DIGEST :]
        self._see_addresses(text)

    def learn(self, tool: str, args: Any, conditional: Sequence[str], is_directory: bool, answer: Any) -> None:
        """Remembers the answer of a call that ran."""
        self._answered(tool, conditional)
        for text in [answer] if isinstance(answer, str) else _leaves_of(answer):
            self._see_addresses(text)
        if not is_directory or tool not in self._tools:
            return
        # A directory repeats what it was asked for, or a part of it, which proves nothing.
        asked = _leaves_of(args)
        if sum(map(_units, asked)) > 4_000:
            return
        asked = [_in_words(text) for text in asked]
        for value in _whole_values(answer):
            if not any(_in_words(value) in text for text in asked):
                digest = self._hash(value)
                self._values.pop(digest, None)
                self._values[digest] = tool
                if len(self._values) > _MEMORY_VALUES:
                    del self._values[next(iter(self._values))]

    def proves(self, destination: str, is_directory: Callable[[str, Set[str]], bool]) -> bool:
        """Whether a destination stands in a prompt, or is a whole value that a directory answered."""
        words = _words_of(destination)
        if not words or len(words) > 2_000 or _proves_nothing(words):
            return False
        source = self._values.get(self._hash(_normalized(destination)))
        if source is not None and is_directory(source, self._tools[source]):
            return True
        sequence = b''.join(map(self._hash, words))
        at = self._words.find(sequence)
        while at >= 0:
            if at % _DIGEST == 0:
                return True
            at = self._words.find(sequence, at + 1)
        return False

    def saw(self, address: str) -> bool:
        """Whether an address stood in a prompt or in any answer."""
        return self._hash(_address_text(address)) in self._addresses

    def counted(self, limit: str, within_ms: int, at: int) -> float:
        return self._tally.sum(self._hash(limit), within_ms, at)

    def count(self, limit: str, within_ms: int, at: int, amount: float) -> None:
        self._tally.add(self._hash(limit), within_ms, at, amount)

    def _answered(self, name: str, args: Sequence[str]) -> None:
        known = self._tools.get(name)
        further = [arg for arg in args if known is None or arg not in known]
        length = (len(name) if known is None else 0) + sum(map(len, further))
        if (known is None and len(self._tools) >= _MEMORY_TOOLS) or self._tool_text + length > _MEMORY_TOOL_TEXT:
            self.has_more_tools = True
            return
        self._tool_text += length
        self._tools.setdefault(name, set()).update(further)

    def _see_addresses(self, text: str) -> None:
        for found in itertools.islice(_SEEN_ADDRESS.finditer(text[:_MEMORY_READ]), _MEMORY_ADDRESSES):
            digest = self._hash(_address_text(found.group()))
            self._addresses.pop(digest, None)
            self._addresses[digest] = None
            if len(self._addresses) > _MEMORY_ADDRESSES:
                del self._addresses[next(iter(self._addresses))]


# Labels and flows.

_LABELS = ('untrusted', 'private', 'sends', 'changes', 'irreversible', 'directory', 'inside', 'fetches')


@dataclass(frozen=True)
class _ToolLabels:
    held: Sequence[str]
    destination: Sequence[str]
    when: Mapping[str, Sequence[str]]


_UNKNOWN_TOOL = _ToolLabels(('untrusted', 'sends'), (), {})


def _is_given(args: Mapping[str, Any], name: str) -> bool:
    value = args.get(name)
    return not (value is None or value is False or value == '' or value == [])


def _labels_of_call(labels: _ToolLabels, args: Mapping[str, Any]) -> Set[str]:
    held = set(labels.held)
    for name, further in labels.when.items():
        if _is_given(args, name):
            held.update(further)
    return held


def _has_label(labels: _ToolLabels, args: Set[str], label: str) -> bool:
    return label in labels.held or any(name in args and label in further for name, further in labels.when.items())


_FLOW_ASKS = {'off': (), 'default': ('sends', 'irreversible'), 'strict': ('sends', 'irreversible', 'changes')}
_FLOW_WORDS = {'sends': 'sends data out', 'irreversible': 'cannot be undone', 'changes': 'changes state'}

def _flow_asks(
    flow: str, memory: SessionMemory, labels_of: Callable[[str], _ToolLabels], call: '_PolicyCall'
) -> Optional[str]:
    """Why a call has to be asked about; None: it has not."""
    if flow == 'off':
        return None
    labels = labels_of(call.tool)
    held = _labels_of_call(labels, call.args)
    if not call.complete:
        held = {*labels.held, *(label for further in labels.when.values() for label in further)}
    effect = next((label for label in _FLOW_ASKS[flow] if label in held), None)
    if effect is None:
        return None

    def had(label: str) -> Callable[[str, Set[str]], bool]:
        return lambda tool, args: _has_label(labels_of(tool), args, label)

    source = memory.answered(had('untrusted')) or ('one of many tools' if memory.has_more_tools else None)
    if source is None:
        return None
    because = f'{_FLOW_WORDS[effect]} after untrusted text was read ({source})'
    if not call.complete:
        return f'The call {because}, and its arguments cannot be read as a whole.'
    destinations = [leaf for name in labels.destination for leaf in _leaves_of(call.args.get(name))]
    if not destinations:
        return f'The call {because}, and it names no destination.'
    if len(destinations) > 500:
        return f'The call {because}, and it names too many destinations.'
    may_fetch = flow == 'default' and 'fetches' in held
    directory = had('directory')
    if all(memory.proves(text, directory) or (may_fetch and memory.saw(text)) for text in destinations):
        return None
    return f'The call {because}, and its destination is neither in the prompt nor the value of a directory.'


# Reading a policy. Faults have the words of the service.


@dataclass(frozen=True)
class _PolicyRule:
    title: str
    decision: str
    tools: Sequence[_ToolPattern]
    agents: Sequence[str]
    tags: Sequence[str]
    scopes: Sequence[str]
    when: Sequence[_Condition]
    limit: Optional[Tuple[Optional[str], float, int]]
    hours: Optional[Tuple[int, int]]
    expires_at: Optional[int]
    approvals: int
    wait_ms: int


@dataclass(frozen=True)
class _PolicyCall:
    tool: str
    args: Dict[str, Any]
    complete: bool
    agent: str
    tags: Sequence[str]
    scope: Optional[str]
    at: int


_DURATION = re.compile(f'([0-9]{{1,5}})[{_SPACE}]*([smhd])')
_SCOPES = ('main', 'subagent')
_UNIT_MS = {'s': 1_000, 'm': 60_000, 'h': 3_600_000, 'd': _DAY_MS}
_HOURS = re.compile('([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-3]):([0-5][0-9])')
_TIME = re.compile(r'(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3}))?)?Z)?', re.ASCII)
_RULE_FIELDS = (
    'title',
    'description',
    'decision',
    'match',
    'when',
    'limit',
    'hours',
    'expires_at',
    'approvals',
    'wait',
    'cases',
)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _number_of(value) is not None


class _PolicyReader:
    """Reads a document. It raises at none: the first fault is in `fault`."""

    def __init__(self) -> None:
        self.first: Optional[Tuple[str, str]] = None
        self._patterns = 0

    def fault(self, path: str, message: str) -> None:
        if self.first is None:
            self.first = (path[:500], message)

    def fields(self, value: Any, path: str, known: Sequence[str]) -> Dict[str, Any]:
        if not isinstance(value, dict):
            self.fault(path, 'must be a map of names and values.')
            return {}
        for name in value:
            if name not in known:
                self.fault(_joined_path(path, name), f'is unknown; known are {", ".join(known)}.')
        return value

    def text(self, value: Any, path: str) -> str:
        if isinstance(value, str) and value.strip(_SPACES) and _units(value) <= 500:
            return value.strip(_SPACES)
        self.fault(path, 'must be a text of 1 to 500 characters.')
        return ''

    def texts(self, value: Any, path: str, most: int) -> List[str]:
        if value is _NOTHING:
            return []
        items = value if isinstance(value, list) else [value]
        if not 1 <= len(items) <= most:
            self.fault(path, f'must have 1 to {most} entries.')
        places = [f'{path}[{at}]' if isinstance(value, list) else path for at in range(len(items))]
        return [self.text(one, place) for one, place in zip(items[:most], places)]

    def choice(self, value: Any, path: str, names: Sequence[str], missing: Optional[str] = None) -> str:
        if value is _NOTHING and missing is not None:
            return missing
        if isinstance(value, str) and value in names:
            return value
        self.fault(path, f'must be {", ".join(names[:-1])} or {names[-1]}.')
        return names[0]

    def duration(self, value: Any, path: str, least: str, most: str) -> Optional[int]:
        def ms_of(text: Any) -> Optional[int]:
            found = _DURATION.fullmatch(text) if isinstance(text, str) else None
            return None if found is None else int(found.group(1)) * _UNIT_MS[found.group(2)]

        ms = ms_of(value)
        if ms is not None and cast(int, ms_of(least)) <= ms <= cast(int, ms_of(most)):
            return ms
        self.fault(path, f'must be a time such as 30s, 15m or 1h, at least {least} and at most {most}.')
        return None

    def time(self, value: Any, path: str) -> Optional[int]:
        found = _TIME.fullmatch(value) if isinstance(value, str) else None
        try:
            if found is not None:
                year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
                at = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.timezone.utc)
                epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
                return (at - epoch) // datetime.timedelta(milliseconds=1) + int((found.group(7) or '').ljust(3, '0'))
        except ValueError:
            pass
        self.fault(path, 'must be a date or a time in UTC such as 2026-12-31T18:00Z.')
        return None

    def patterns(self, texts: Sequence[Any], path: str) -> List[_Pattern]:
        self._patterns += len(texts)
        if self._patterns > 50:
            self.fault(path, 'would cost too much: a policy has at most 50 patterns.')
            return []
        found: List[_Pattern] = []
        for text in texts:
            try:
                found.append(_Pattern(_scalar_text(text)))
            except _PatternFault as fault:
                self.fault(path, f'has a pattern that {fault}.')
        return found

    def whom(self, value: Any, path: str) -> None:
        if value is _NOTHING:
            return
        fields = self.fields(value, path, ('agents', 'tags'))
        for name in ('agents', 'tags'):
            self.texts(fields.get(name, _NOTHING), _joined_path(path, name), 500)

    def rule(self, value: Any, path: str) -> _PolicyRule:
        fields = self.fields(value, path, _RULE_FIELDS)
        match_path = _joined_path(path, 'match')
        given = fields.get('match')
        match = self.fields({} if given is None else given, match_path, ('tool', 'agent', 'tags', 'scope'))
        tools: List[_ToolPattern] = []
        for at, text in enumerate(self.texts(match.get('tool', _NOTHING), f'{match_path}.tool', 200)):
            pattern = _tool_pattern(text)
            if pattern is None:
                self.fault(f'{match_path}.tool[{at}]', 'must be a name such as send_email, or Bash(rm -rf *).')
            else:
                tools.append(pattern)
        decision = self.choice(fields.get('decision', _NOTHING), _joined_path(path, 'decision'), _DECISIONS)
        for name in ('approvals', 'wait'):
            if name in fields and decision != 'ask':
                self.fault(_joined_path(path, name), 'is only for rules whose decision is ask.')
        approvals = fields.get('approvals')
        approvals = 1 if approvals is None else approvals
        if not _is_number(approvals) or approvals not in (1, 2):
            self.fault(_joined_path(path, 'approvals'), 'must be 1 or 2.')
        title = self.text(fields.get('title'), _joined_path(path, 'title'))
        agents = self.texts(match.get('agent', _NOTHING), f'{match_path}.agent', 500)
        tags = self.texts(match.get('tags', _NOTHING), f'{match_path}.tags', 500)
        scopes = self.texts(match.get('scope', _NOTHING), f'{match_path}.scope', len(_SCOPES))
        for at, name in enumerate(scopes):
            place = f'{match_path}.scope[{at}]' if isinstance(match['scope'], list) else f'{match_path}.scope'
            self.choice(name, place, _SCOPES)
        when = self.conditions(fields.get('when', _NOTHING), _joined_path(path, 'when'))
        limit = self.limit(fields.get('limit', _NOTHING), _joined_path(path, 'limit'))
        hours = self.hours(fields.get('hours', _NOTHING), _joined_path(path, 'hours'))
        expires = fields.get('expires_at', _NOTHING)
        expires_at = None if expires is _NOTHING else self.time(expires, _joined_path(path, 'expires_at'))
        wait = None
        if 'wait' in fields:
            wait = self.duration(fields['wait'], _joined_path(path, 'wait'), '10s', '1d')
        return _PolicyRule(
            title,
            decision,
            tools,
            agents,
            tags,
            scopes,
            when,
            limit,
            hours,
            expires_at,
            2 if approvals == 2 else 1,
            _DEFAULT_WAIT_MS if wait is None else wait,
        )

    def conditions(self, value: Any, path: str) -> List[_Condition]:
        if value is _NOTHING:
            return []
        entries = list(value.items()) if isinstance(value, dict) else []
        if not 1 <= len(entries) <= 20:
            self.fault(path, 'must be a map of 1 to 20 conditions, such as recipients|not_host.')
        return [self.condition(key, wanted, path) for key, wanted in entries[:20]]

    def condition(self, key: str, wanted: Any, path: str) -> _Condition:
        name, *rest = key.split('|')
        word = rest[0] if rest else 'glob'
        negated = word.startswith('not_')
        modifier = word[len('not_') :] if negated else word
        place = f'{path}.{key}'
        if name == '' or _units(key) > 500 or len(rest) > 1 or modifier not in _MODIFIERS:
            self.fault(place, f'must be an argument and one of {", ".join(_MODIFIERS)}, or not_ before one of them.')
        items = wanted if isinstance(wanted, list) else [wanted]
        if not 1 <= len(items) <= 500:
            self.fault(place, 'must have 1 to 500 values.')
        numeric = modifier in _LIMITS
        right = _is_number if numeric else lambda one: isinstance(one, (str, int, float))
        if not all(map(right, items)):
            self.fault(place, f'must be {"a number" if numeric else "texts, numbers or truth values"}.')
            items = []
        if any(isinstance(one, str) and _units(one) > 500 for one in items):
            self.fault(place, 'must have values of at most 500 characters.')
        some = items[:500]
        return _Condition(name, modifier, negated, some, self.patterns(some, place) if modifier == 're' else ())

    def limit(self, value: Any, path: str) -> Optional[Tuple[Optional[str], float, int]]:
        if value is _NOTHING:
            return None
        fields = self.fields(value, path, ('calls', 'total', 'of', 'within'))
        within = self.duration(fields.get('within'), f'{path}.within', '1s', '1d') or 0
        if ('calls' in fields) == ('total' in fields):
            self.fault(path, 'must have calls, or total and of.')
        elif 'calls' in fields:
            calls = fields['calls']
            if not _is_number(calls) or calls != int(calls) or not 1 <= calls <= 1_000:
                self.fault(f'{path}.calls', 'must be a whole number from 1 to 1000.')
            else:
                if 'of' in fields:
                    self.fault(f'{path}.of', 'is only for a total.')
                return None, calls, within
        elif not _is_number(fields['total']) or not 0 <= fields['total'] < 2**53:
            self.fault(f'{path}.total', 'must be a number from 0 on.')
        else:
            return self.text(fields.get('of'), f'{path}.of'), fields['total'], within
        return None

    def hours(self, value: Any, path: str) -> Optional[Tuple[int, int]]:
        if value is _NOTHING:
            return None
        found = _HOURS.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            self.fault(path, 'must be times of the day in UTC such as 22:00-06:00.')
            return None
        numbers = [int(part) for part in found.groups()]
        return numbers[0] * 60 + numbers[1], numbers[2] * 60 + numbers[3]

    def labels(self, value: Any) -> Dict[str, _ToolLabels]:
        if value is _NOTHING:
            return {}
        # Packs are a map by the time they are delivered.
        if not isinstance(value, dict):
            self.fault('labels', 'must be a map of tools.')
            return {}
        if len(value) > 2_000:
            self.fault('labels', 'must name at most 2000 tools.')
        read: Dict[str, _ToolLabels] = {}
        for tool, one in itertools.islice(value.items(), 2_001):
            if _units(tool) > 500:
                self.fault('labels', 'must name tools in at most 500 characters.')
            read[tool.lower()] = self.tool_labels(one, f'labels.{tool}')
        return read

    def tool_labels(self, value: Any, path: str) -> _ToolLabels:
        fields = self.fields(value, path, ('is', 'destination', 'when'))

        def named(given: Any, place: str) -> List[str]:
            entries = given if isinstance(given, list) else [given]
            if len(entries) > len(_LABELS):
                self.fault(place, f'must have at most {len(_LABELS)} labels.')
            return [self.choice(one, f'{place}[{at}]', _LABELS) for at, one in enumerate(entries[: len(_LABELS)])]

        when = fields.get('when', {})
        if not isinstance(when, dict) or len(when) > 20:
            self.fault(f'{path}.when', 'must be a map of at most 20 arguments.')
            when = {}
        destination = fields.get('destination', _NOTHING)
        held = named(fields['is'], f'{path}.is') if 'is' in fields else []
        return _ToolLabels(
            held,
            self.texts(_NOTHING if destination == [] else destination, f'{path}.destination', 20),
            {name: named(given, f'{path}.when.{name}') for name, given in when.items()},
        )


def _joined_path(path: str, name: str) -> str:
    return name if path == '' else f'{path}.{name}'


class _Policy:
    """One policy, and the labels by which it judges what a session met."""

    def __init__(self, policy_id: str, document: Any, tools: Sequence[Mapping[str, Any]]) -> None:
        reader = _PolicyReader()
        known = ('title', 'description', 'mode', 'for', 'enforce_for', 'default', 'rules', 'flow', 'labels')
        fields = reader.fields(document, '', known)
        rules = fields.get('rules')
        rules = [] if rules is None else rules
        if not isinstance(rules, list) or len(rules) > 200:
            reader.fault('rules', 'must be a list of at most 200 rules.')
            rules = []
        self._id = policy_id
        reader.text(fields.get('title'), 'title')
        reader.choice(fields.get('mode', _NOTHING), 'mode', ('observe', 'enforce'), 'observe')
        reader.whom(fields.get('for', _NOTHING), 'for')
        reader.whom(fields.get('enforce_for', _NOTHING), 'enforce_for')
        self._default = reader.choice(fields.get('default', _NOTHING), 'default', _DECISIONS, 'allow')
        self._rules = [reader.rule(rule, f'rules[{at}]') for at, rule in enumerate(rules)]
        self._flow = reader.choice(fields.get('flow', _NOTHING), 'flow', tuple(_FLOW_ASKS), 'off')
        own = reader.labels(fields.get('labels', _NOTHING))
        titles: Set[str] = set()
        for at, rule in enumerate(self._rules):
            if rule.title in titles:
                reader.fault(f'rules[{at}].title', 'is the title of another rule.')
            titles.add(rule.title)
        self.fault = reader.first
        guessed = {tool['name'].lower(): _guess_labels(tool) for tool in tools if isinstance(tool.get('name'), str)}
        self._labels = {**guessed, **own}

    def labels_of(self, tool: str) -> _ToolLabels:
        name = tool.lower()
        short = re.sub('^mcp__[^\n\r\u2028\u2029]+?__', '', name)
        return self._labels.get(name) or self._labels.get(short) or _UNKNOWN_TOOL

    def judge(self, memory: SessionMemory, call: _PolicyCall) -> '_Judged':
        counts: List[Tuple[str, int, float]] = []
        decided: Optional[Tuple[str, Optional[str], Optional[str], int, int]] = None
        certain = False
        for rule in self._rules:
            truth = _matches_rule(rule, call)
            if truth is False or (truth == 'unknown' and rule.decision == 'allow'):
                continue
            unknown = truth == 'unknown'
            if rule.limit is not None:
                of, most, within_ms = rule.limit
                amount = 1.0 if of is None else _amount_of(call.args, of)
                if amount is None:
                    if rule.decision == 'allow':
                        continue
                    unknown = True
                else:
                    key = f'{self._id}\n{rule.title}'
                    if memory.counted(key, within_ms, call.at) + amount <= most:
                        counts.append((key, within_ms, amount))
                        continue
            certain = certain or not unknown
            if decided is not None:
                own, other = (rule.decision, rule.approvals), (decided[0], decided[3])
                says_more = decided[2] is not None and not unknown and not _is_stricter(other, own)
                if not says_more and not _is_stricter(own, other):
                    continue
            why = 'The rule cannot be evaluated for this call, so it takes effect.' if unknown else None
            decided = (rule.decision, rule.title, why, rule.approvals, rule.wait_ms)
        # A rule that may not match takes no call away from a default that is stricter.
        if decided is None or (not certain and _is_stricter((self._default, 1), (decided[0], decided[3]))):
            decided = (self._default, None, None, 1, _DEFAULT_WAIT_MS)
        if _is_stricter(('ask', 1), (decided[0], decided[3])):
            why = _flow_asks(self._flow, memory, self.labels_of, call)
            if why is not None:
                decided = ('ask', 'flow', why, 1, _DEFAULT_WAIT_MS)
        return _Judged(*decided, counts)


class _Judged(NamedTuple):
    decision: str
    rule: Optional[str]
    why: Optional[str]
    approvals: int
    wait_ms: int
    counts: Sequence[Tuple[str, int, float]]


def _is_stricter(one: Tuple[str, int], other: Tuple[str, int]) -> bool:
    if one[0] != other[0]:
        return _DECISIONS.index(one[0]) > _DECISIONS.index(other[0])
    return one[0] == 'ask' and one[1] > other[1]


def _matches_rule(rule: _PolicyRule, call: _PolicyCall) -> Union[bool, str]:
    if rule.expires_at is not None and call.at >= rule.expires_at:
        return False
    if rule.agents and not any(_matches_glob(pattern, call.agent) for pattern in rule.agents):
        return False
    if rule.tags and not any(tag in call.tags for tag in rule.tags):
        return False
    if rule.scopes and call.scope is not None and call.scope not in rule.scopes:
        return False
    if rule.hours is not None:
        start, end = rule.hours
        minute = call.at % _DAY_MS // 60_000
        if not (start <= minute < end if start <= end else minute >= start or minute < end):
            return False
    # A rule that allows has to say so of each value and command, one that holds back only of one.
    for_each = rule.decision == 'allow'
    truths = [condition.evaluate(call.args, for_each) if call.complete else 'unknown' for condition in rule.when]
    truths.append(_matches_tools(rule.tools, call, for_each))
    if rule.scopes and call.scope is None:
        truths.append('unknown')
    if False in truths:
        return False
    return 'unknown' if 'unknown' in truths else True


class PolicyReference(NamedTuple):
    id: str
    title: str
    version: int


class Observed(NamedTuple):
    """What a policy in mode observe would have decided."""

    decision: str
    rule: Optional[str]
    why: Optional[str]
    policy: PolicyReference


class SetDecision(NamedTuple):
    """`decision` is 'allow', 'ask' or 'deny'; `rule` the title of the rule that decided, 'flow', or None; `policy` is
    None if nothing matched; `observed` has what policies in mode observe would have asked or denied."""

    decision: str
    rule: Optional[str]
    why: Optional[str]
    policy: Optional[PolicyReference]
    approvals: int
    wait_ms: int
    observed: Sequence[Observed]


class PolicySet:
    """The policies of one agent, as the service delivers them: each decides alone, and the strictest decision counts.

    `delivered` is `{'agent': {'id', 'tags'}, 'policies': [{'id', 'title', 'version', 'mode', 'document'}]}`; `tools` is
    what tool servers list, for labels of tools that policies have none for. Raises PolicySetFault when it cannot be read.
    """

    def __init__(self, delivered: Any, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        fields = delivered if isinstance(delivered, dict) else {}
        agent, policies = fields.get('agent'), fields.get('policies')
        if (
            not isinstance(agent, dict)
            or not isinstance(agent.get('id'), str)
            or not isinstance(agent.get('tags'), list)
            or not all(isinstance(tag, str) for tag in agent['tags'])
        ):
            raise PolicySetFault('agent must be a map with id and tags.')
        if not isinstance(policies, list) or len(policies) > 1_000:
            raise PolicySetFault('policies must be a list of at most 1000 policies.')
        self._agent: str = agent['id']
        self._tags: List[str] = agent['tags']
        self._held = [self._read(policy, f'policies[{at}]', tools) for at, policy in enumerate(policies)]

    @staticmethod
    def _read(given: Any, path: str, tools: Sequence[Mapping[str, Any]]) -> Tuple[PolicyReference, bool, _Policy]:
        fields = given if isinstance(given, dict) else {}
        policy_id, title, version, mode = (fields.get(name) for name in ('id', 'title', 'version', 'mode'))
        is_text = isinstance(policy_id, str) and isinstance(title, str)
        if not is_text or not _is_number(version) or version != int(version) or mode not in ('observe', 'enforce'):
            raise PolicySetFault(
                f'{path} must have id, title, version, mode (observe or enforce) and document.'
            )
        policy = _Policy(policy_id, fields.get('document'), tools)
        if policy.fault is not None:
            place, message = policy.fault
            raise PolicySetFault(f'policy "{title}" cannot be read: {place or "the document"} {message}')
        return PolicyReference(policy_id, title, int(version)), mode == 'enforce', policy

    def decide(
        self, memory: SessionMemory, tool: str, args: Any, at: Optional[int] = None, scope: Optional[str] = None
    ) -> SetDecision:
        """Decides on a call, and counts it for limits unless it is denied. `at`: milliseconds since the epoch; `scope`:
        'main' or 'subagent', None if it is not known."""
        moment = int(time.time() * 1000) if at is None else at
        given, complete = _read_args(args)
        call = _PolicyCall(tool, given, complete, self._agent, self._tags, scope, moment)
        judged = [(reference, enforced, policy.judge(memory, call)) for reference, enforced, policy in self._held]
        strictest: Optional[Tuple[PolicyReference, _Judged]] = None
        for reference, enforced, one in judged:
            if not enforced:
                continue
            rank = (one.decision, one.approvals)
            if strictest is None:
                better = one.rule is not None or one.decision != 'allow'
            else:
                other = strictest[1]
                other_rank = (other.decision, other.approvals)
                names_rule = other.rule is None and one.rule is not None and not _is_stricter(other_rank, rank)
                better = _is_stricter(rank, other_rank) or names_rule
            if better:
                strictest = (reference, one)
        if strictest is None or strictest[1].decision != 'deny':
            for _, _, one in judged:
                for limit, within_ms, amount in one.counts:
                    memory.count(limit, within_ms, moment, amount)
        observed = [
            Observed(one.decision, one.rule, one.why, reference)
            for reference, enforced, one in judged
            if not enforced and one.decision != 'allow'
        ]
        if strictest is None:
            return SetDecision('allow', None, None, None, 1, _DEFAULT_WAIT_MS, observed)
        reference, one = strictest
        return SetDecision(one.decision, one.rule, one.why, reference, one.approvals, one.wait_ms, observed)

    def learn(self, memory: SessionMemory, tool: str, args: Any, answer: Any) -> None:
        """Remembers the answer of a call that ran."""
        given, _ = _read_args(args)
        labels = [policy.labels_of(tool) for _, _, policy in self._held]
        conditional = sorted({name for one in labels for name in one.when if _is_given(given, name)})
        is_directory = any('directory' in _labels_of_call(one, given) for one in labels)
        memory.learn(tool, given, conditional, is_directory, _Copy(_ANSWER_NODES).of(answer))


def _read_args(args: Any) -> Tuple[Dict[str, Any], bool]:
    copy = _Copy(_CALL_NODES)
    value = copy.of({} if args is None else args)
    return (value, copy.complete) if isinstance(value, dict) else ({}, False)


# Labels of tools that no policy names, guessed from what their servers list.

# begin guess words: written by `npm run docs` from packages/policy/src/guess.ts
_GUESS_WORDS: Dict[str, str] = {
    'sending': (
        'send post reply forward share publish tweet retweet invite notify email mail message dm '
        'comment submit upload transfer pay wire remit donate tip book reserve order purchase buy '
        'checkout subscribe broadcast announce push call dial sms fax respond answer react '
        'add_participants export deploy grant dispatch request execute run exec shell bash cancel '
        'ship trade sell swap bid withdraw'
    ),
    'undoing': (
        'delete remove cancel drop purge erase wipe destroy terminate revoke reset overwrite '
        'truncate uninstall unsubscribe close shutdown kill format disable ban block transfer pay '
        'wire remit donate purchase buy order book reserve checkout send reply forward publish '
        'exchange return refund execute run exec shell bash trade sell swap grant deploy unlock '
        'merge withdraw'
    ),
    'changing': (
        'create add update edit modify set change write append insert replace rename move copy save '
        'store schedule reschedule assign unassign enable mark archive complete register enroll '
        'connect link install configure generate_file upload put patch apply restart start stop '
        'open_door control turn adjust book reserve'
    ),
    'reading': (
        'get read list search find fetch view show retrieve check lookup look browse query open '
        'download load receive summarize extract scan inspect describe translate analyze track '
        'monitor navigate visit crawl scrape recall explore review display watch access inquire '
        'obtain view_all'
    ),
    'closed': (
        'price prices cost hour hours time date day today now address addresses balance count total '
        'status availability available fuel cuisine option options type types airport airports '
        'currency rate rates exchange version weather temperature forecast schedule route routes '
        'distance location locations coordinates stock quote iban zip unit units timezone language '
        'languages price_per_day flight flights capacity limit limits health metrics'
    ),
    'written': (
        'email emails mail mails inbox message messages chat chats channel thread threads comment '
        'comments review reviews feedback post posts tweet tweets page pages web website webpage '
        'url link file files document documents doc docs note notes ticket tickets issue issues '
        'pull pr prs event events calendar notification notifications article articles news feed '
        'transcript attachment attachments transaction transactions search result results answer '
        'answers question questions wiki blog repository repo readme code contents content html '
        'record records task tasks item_reviews description descriptions product products forum '
        'profile profiles history memory memories voicemail voicemails podcast video videos '
        'invitation invitations request requests'
    ),
    'kept': (
        'contact contacts directory user users customer customers account accounts employee '
        'employees member members order orders reservation reservations'
    ),
    'personal': (
        'email emails mail mails inbox message messages chat file files document documents note '
        'notes calendar contact contacts user users customer customers account accounts profile '
        'transaction transactions balance medical health patient record records history password '
        'passwords secret secrets credential credentials token tokens key keys address addresses '
        'payment card bank statement order orders reservation reservations voicemail personal '
        'private device devices location'
    ),
    'computing': 'calculate compute convert count validate format parse encode decode think sleep wait',
    'fetching': 'fetch browse open visit navigate scrape crawl webpage website url uri download',
    'money': (
        'money payment payments transaction transactions transfer transfers fund funds payout '
        'payouts remittance refund refunds charge charges withdrawal withdrawals'
    ),
    'published': (
        'comment comments message messages mail mails email emails post posts tweet tweets reply '
        'replies issue issues pull review reviews announcement invitation invitations notification '
        'notifications gist release'
    ),
    'creating': 'create add append write insert',
    'executing': 'execute exec run shell bash terminal',
    'people': (
        'user users member members collaborator collaborators participant participants guest guests '
        'attendee attendees contributor contributors follower followers'
    ),
    'admitting': 'add assign enroll register connect link enable',
    'guarding': (
        'password passwords passcode pin credential credentials permission permissions role roles '
        'access secret secrets token tokens mfa 2fa lock'
    ),
    'directing': (
        'to cc bcc recipient recipients receiver receivers participant participants attendee '
        'attendees invitee invitees email emails emailaddress emailaddresses address addresses '
        'phone phonenumber number channel channels channelid channelname user users userid username '
        'useremail account accountid accountnumber iban destination dest target url uri link '
        'endpoint webhook host domain repo repository owner branch path file fileid filename '
        'filepath folder folderid id hotel restaurant company vendor merchant payee name title'
    ),
}
# end guess words
_GUESSES = {name: frozenset(text.split()) for name, text in _GUESS_WORDS.items()}
_SENT_TO = re.compile(
    '(?:participants?|attendees?|invitees?|recipients?|cc|bcc|share_?with|emails?)', re.IGNORECASE | re.ASCII
)


def _name_words_of(name: str) -> List[str]:
    spaced = re.sub('([a-z0-9])([A-Z])', r'\1 \2', re.sub('^mcp__', '', name))
    spaced = re.sub('([A-Z]+)([A-Z][a-z])', r'\1 \2', spaced)
    return [word for word in re.split('[^a-z0-9]+', spaced.lower()) if word]


def _guess_any(words: Sequence[str], *kinds: str) -> bool:
    stems = {
        stem
        for word in words
        for stem in (
            word,
            re.sub(r's\Z', '', word),
            re.sub(r'(?:es|ed|ing)\Z', '', word),
            re.sub(r'(?:ed|ing)\Z', 'e', word),
        )
    }
    return any(not stems.isdisjoint(_GUESSES[kind]) for kind in kinds)


def _is_directing(arg: str) -> bool:
    return (
        arg.lower().replace('_', '') in _GUESSES['directing']
        or re.search(r'(?:_[iI][dD][sS]?|[a-z]Ids?)\Z', arg) is not None
        or arg[:9].lower() == 'recipient'
    )


def _guess_labels(tool: Mapping[str, Any]) -> _ToolLabels:
    given, schema, hints = tool.get('description'), tool.get('inputSchema'), tool.get('annotations')
    description = given[:1_000] if isinstance(given, str) else ''
    properties = schema.get('properties') if isinstance(schema, dict) else None
    args = list(properties)[:100] if isinstance(properties, dict) else []
    hints = hints if isinstance(hints, dict) else {}
    named = _name_words_of(tool['name'][:200])
    sentence = _name_words_of(re.split('[.\n]', description, maxsplit=1)[0])
    kinds = ('reading', 'sending', 'changing', 'undoing', 'computing')
    verb = next((word for word in named if _guess_any([word], *kinds)), None)
    verbs = sentence[:4] if verb is None else [verb]
    objects = [*(word for word in named if word != verb), *sentence[:12]]
    held: Set[str] = set()
    reading = _guess_any(verbs, 'reading') and not _guess_any(verbs, 'sending')
    if reading:
        end = next((at for at, word in enumerate(named) if word in ('by', 'for', 'from', 'in', 'with', 'via')), None)
        nouns = [word for word in named[:end] if word != verb]
        about_others = _guess_any(nouns, 'written')
        if _guess_any(nouns, 'kept') and not about_others:
            held |= {'directory', 'private'}
        elif not _guess_any(nouns, 'closed') or about_others:
            held.add('untrusted')
        if _guess_any(objects, 'personal'):
            held.add('private')
        addresses = any(re.fullmatch('(?:url|uri|link|address)s?', arg, re.IGNORECASE | re.ASCII) for arg in args)
        if addresses and (_guess_any(verbs, 'fetching') or _guess_any(nouns, 'fetching')):
            held |= {'untrusted', 'sends', 'fetches'}
    else:
        if _guess_any(verbs, 'sending'):
            held |= {'sends', 'changes'}
        if _guess_any(verbs, 'changing'):
            held.add('changes')
        if _guess_any(verbs, 'undoing'):
            held |= {'changes', 'irreversible'}
        nouns = [word for word in named if word != verb]
        if 'changes' in held and _guess_any(nouns, 'money'):
            held |= {'sends', 'irreversible'}
        if _guess_any(verbs, 'admitting') and _guess_any(nouns, 'people'):
            held.add('sends')
        if 'changes' in held and _guess_any(nouns, 'guarding'):
            held.add('irreversible')
        # Nobody reads a draft.
        if _guess_any(verbs, 'creating') and _guess_any(nouns, 'published') and 'draft' not in nouns:
            held.add('sends')
        if _guess_any(verbs, 'executing'):
            held.add('untrusted')
    if hints.get('destructiveHint') is True:
        held |= {'irreversible', 'changes'}
    if not _guess_any(verbs, *kinds) and not held:
        if hints.get('readOnlyHint') is not True:
            return _ToolLabels(_UNKNOWN_TOOL.held, [arg for arg in args if _is_directing(arg)], {})
        held.add('untrusted')
    when = {} if reading else {arg: ('sends',) for arg in args if _SENT_TO.fullmatch(arg)}
    destination = [] if reading and 'fetches' not in held else [arg for arg in args if _is_directing(arg)]
    return _ToolLabels(sorted(held), destination, when)


# --- Policies of the service -----------------------------------------------------------------------------------------

_SET_BYTES = 512 * 1024
_SESSIONS = 200
_FORGOTTEN_SESSIONS = 20_000
_PROMPT_LENGTH = 256 * 1024
_APPROVAL_POLL = 2.0
_APPROVAL_ATTEMPTS = 3
_APPROVAL_GRACE = 30.0
_PREVIEW_BYTES = 4 * 1024
_APPROVAL_ID = re.compile(r'[\w-]{1,64}', re.ASCII)


class _Sessions:
    """What the sessions of an agent have met; calls without a session share one. Survives a fork, since a child that
    forgot what was read would be asked about nothing."""

    def __init__(self) -> None:
        self._memories: 'collections.OrderedDict[str, SessionMemory]' = collections.OrderedDict()
        self._forgotten: 'collections.OrderedDict[str, None]' = collections.OrderedDict()
        self.lock = threading.RLock()

    def renew(self) -> None:
        self.lock = threading.RLock()

    def of(self, session_id: Optional[str]) -> SessionMemory:
        """Call it, and use the memory, with the lock held."""
        name = '' if session_id is None else str(session_id)
        memory = self._memories.get(name)
        if memory is None:
            memory = self._memories[name] = SessionMemory()
            # What was forgotten is asked.
            memory.has_more_tools = name in self._forgotten
        self._memories.move_to_end(name)
        if len(self._memories) > _SESSIONS:
            oldest, dropped = self._memories.popitem(last=False)
            if dropped.has_more_tools or dropped.answered(lambda _tool, _args: True) is not None:
                self._forgotten[oldest] = None
                if len(self._forgotten) > _FORGOTTEN_SESSIONS:
                    self._forgotten.popitem(last=False)
        return memory


class _Policies:
    """The policies of this agent: those of the service, else those stored on disk. A set replaces only an older one."""

    def __init__(
        self,
        transport: _Transport,
        instance_id: str,
        state_file: Optional[str],
        public_keys: Optional[_PublicKeys],
        problems: _Problems,
    ) -> None:
        self._transport = transport
        self._instance_id = instance_id
        self._file = None if state_file is None else f'{state_file}.policy'
        self._public_keys = public_keys
        self._problems = problems
        self._fetching = threading.Lock()
        self._retry_at = 0.0
        self._failed = 0
        self._announced = 0
        self.version = 0
        self.held: Optional[PolicySet] = None
        if self._file is not None:
            self._load(self._file)

    def adopt(self, parent: _Policies) -> None:
        """Holds what a parent process held before a fork, unless something newer is stored."""
        if parent.version > self.version:
            self.version, self.held = parent.version, parent.held
        self._announced = max(self._announced, parent._announced)

    @property
    def are_missing(self) -> bool:
        """Whether the service has policies of which none could be read."""
        return self._announced > 0 and self.held is None

    def hear(self, answer: _Answer) -> None:
        """Learns the version from an answer, and fetches what is newer."""
        said = answer.headers.get('x-wardline-policy', '')
        if answer.status in (200, 304) and re.fullmatch('[0-9]{1,15}', said):
            self._announced = max(self._announced, int(said))
            self._fetch_if_due()

    def announce(self, version: Any) -> None:
        """The control stream says that there is a newer version. An announcement is not signed; what is fetched is."""
        if not _is_version(version):
            return
        self._announced = max(self._announced, version)
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=self._fetch_if_due, name='wardline', daemon=True).start()

    def _fetch_if_due(self) -> None:
        while self._announced > self.version and self._fetching.acquire(blocking=False):
            wanted = self._announced
            try:
                if wanted <= self._failed and time.monotonic() < self._retry_at:
                    return
                self._failed, self._retry_at = wanted, time.monotonic() + _REFUSED
                self._fetch()
            finally:
                self._fetching.release()
            if self._announced == wanted:
                return

    def _fetch(self) -> None:
        try:
            answer = self._transport.request(f'/api/instances/{self._instance_id}/policy')
        except _NoAnswer as error:
            self._retry_at = time.monotonic() + _POLL_WITHOUT_STREAM
            self._problems.note('policy', f'No policies were received: {error}')
            return
        if answer.status != 200:
            self._retry_at = time.monotonic() + _POLL_WITHOUT_STREAM
            self._problems.note('policy', f'No policies were received: {answer.refusal()}')
            return
        self._use(answer.json(), self._file)

    def _load(self, file: str) -> None:
        try:
            descriptor = _open_regular(file, os.O_RDONLY)
            with open(descriptor, 'rb') as stored:
                text = stored.read(2 * _SET_BYTES + 1025)
        except FileNotFoundError:
            return
        except OSError as error:
            self._problems.note('policy file', f'The stored policies cannot be read: {_describe(error)}')
            return
        self._use(_json_object(text), None)

    def _use(self, given: Mapping[str, Any], file: Optional[str]) -> None:
        version, body = given.get('version'), given.get('body')
        signature = given.get('signature_ed25519')
        if given.get('instance_id') != self._instance_id or not _is_version(version) or not isinstance(body, str):
            self._problems.note('policy', 'The answer has no policies for this agent. They are ignored.')
            return
        if len(body.encode('utf-8', 'surrogatepass')) > _SET_BYTES:
            self._problems.note('policy', f'The policies have more than {_SET_BYTES} bytes. They are ignored.')
            return
        keys = self._public_keys
        if keys is not None and not keys.signed_policy(cast(int, version), body, signature):
            self._problems.note('policy', f'Policies were ignored: {_UNSIGNED}')
            return
        if cast(int, version) <= self.version:
            return
        try:
            delivered = _json_object(body)
            agent = delivered.get('agent')
            if not isinstance(agent, dict) or agent.get('id') != self._instance_id:
                raise PolicySetFault('it is for another agent.')
            self.held = PolicySet(delivered)
        except PolicySetFault as fault:
            self._problems.note(
                'policy',
                f'The policies of this agent cannot be read: {fault} The last ones that could be read hold; '
                'update wardline.py if the service is newer.',
            )
            return
        self.version = cast(int, version)
        self._problems.over('policy')
        if file is not None:
            self._store(file, given)

    def _store(self, file: str, given: Mapping[str, Any]) -> None:
        kept = {name: given[name] for name in ('instance_id', 'version', 'body', 'signature_ed25519') if name in given}
        try:
            descriptor, made = tempfile.mkstemp(prefix='.wardline-', dir=os.path.dirname(file) or '.')
            try:
                with open(descriptor, 'wb') as target:
                    target.write(_to_json(kept) + b'\n')
                    target.flush()
                    os.fsync(target.fileno())
                os.replace(made, file)
            except BaseException:
                os.unlink(made)
                raise
        except (OSError, ValueError) as error:
            self._problems.note('policy file', f'The policies cannot be stored: {_describe(error)}')


class _Approvals:
    """Asks people about calls, and waits for them."""

    def __init__(self, transport: _Transport, instance_id: str, kill_switch: _KillSwitch) -> None:
        self._path = f'/api/instances/{instance_id}/approvals'
        self._transport = transport
        self._kill_switch = kill_switch
        self._waiting: Dict[str, List[threading.Event]] = {}
        self._noticed: 'collections.OrderedDict[str, float]' = collections.OrderedDict()
        self._lock = threading.RLock()
        self.stopping = threading.Event()

    def notice(self, approval_id: Any) -> None:
        """The service has decided: those who wait ask at once."""
        if not isinstance(approval_id, str):
            return
        with self._lock:
            self._noticed[approval_id] = time.monotonic()
            if len(self._noticed) > 100:
                self._noticed.popitem(last=False)
            for event in self._waiting.get(approval_id, ()):
                event.set()

    def end(self) -> None:
        """Ends the waiting."""
        self.stopping.set()
        with self._lock:
            for events in self._waiting.values():
                for event in events:
                    event.set()

    def ask(self, question: Mapping[str, Any], wait: bool, abandoned: threading.Event) -> Tuple[str, str, str]:
        """How it went, the id of the approval, and a reason or a fault: granted, pending, denied, expired; refused when
        the service does not take the question; away when the fail mode decides."""
        body = _to_json({'attempt': str(uuid.uuid4()), **question})
        ends = time.monotonic() + question['wait_seconds'] + _APPROVAL_GRACE
        pending = ''
        failures = 0
        while True:
            asked = time.monotonic()
            pause = 0.0
            try:
                answer = self._transport.request(self._path, body)
                state, approval_id, said = _outcome_of(answer)
                pause = answer.retry_after()
            except _NoAnswer as error:
                state, approval_id, said = '', '', str(error)
            if state == 'pending':
                if not wait:
                    return state, approval_id, ''
                pending = approval_id
            elif state == 'busy':
                if not pending:
                    return 'refused', '', 'Too many calls of this agent wait for a person.'
            elif state:
                return state, approval_id, said
            failures = 0 if state else failures + 1
            if pending and not state and time.monotonic() >= ends:
                return 'expired', pending, ''
            if not pending and failures >= _APPROVAL_ATTEMPTS:
                return 'away', '', said
            self._pause(max(pause, _APPROVAL_POLL * random.uniform(0.8, 1.2)), pending, asked, abandoned)
            if self._is_over(abandoned):
                return ('pending', pending, '') if pending else ('refused', '', 'The agent was stopped meanwhile.')

    def _is_over(self, abandoned: threading.Event) -> bool:
        return self.stopping.is_set() or abandoned.is_set() or self._kill_switch.state()[0]

    def _pause(self, seconds: float, approval_id: str, since: float, abandoned: threading.Event) -> None:
        """Waits until the time is over, or the approval was decided. A suspension is seen within a second."""
        event = threading.Event()
        with self._lock:
            if self._noticed.get(approval_id, -1.0) >= since:
                return
            self._waiting.setdefault(approval_id, []).append(event)
        deadline = time.monotonic() + seconds
        try:
            while not event.wait(max(0.0, min(1.0, deadline - time.monotonic()))):
                if time.monotonic() >= deadline or self._is_over(abandoned):
                    return
        finally:
            with self._lock:
                left = self._waiting[approval_id]
                left.remove(event)
                if not left:
                    del self._waiting[approval_id]


def _outcome_of(answer: _Answer) -> Tuple[str, str, str]:
    """An empty state: another attempt may be answered."""
    fields = answer.json()
    approval_id, state, reason = fields.get('id'), fields.get('state'), fields.get('reason')
    if answer.status == 200 and isinstance(approval_id, str) and _APPROVAL_ID.fullmatch(approval_id):
        if state in ('granted', 'pending', 'denied', 'expired'):
            return state, approval_id, _one_line(reason, 500) if isinstance(reason, str) else ''
    # The cause is the key that the operator gave the agent, not the author of the call.
    if answer.status in (401, 403):
        return 'away', '', answer.refusal()
    if answer.status == 429:
        return 'busy', '', ''
    return ('', '', answer.refusal()) if answer.status == 0 or answer.status >= 500 else ('refused', '', answer.refusal())


class _PolicyGuard:
    """Decides on calls by the policies of the operators, and asks people where these say so."""

    def __init__(
        self,
        policies: _Policies,
        approvals: _Approvals,
        sessions: _Sessions,
        problems: _Problems,
        fail_closed: bool,
        report: Callable[..., Any],
    ) -> None:
        self._policies = policies
        self._approvals = approvals
        self._sessions = sessions
        self._problems = problems
        self._fail_closed = fail_closed
        self._report = report

    def is_needed(self) -> bool:
        return self._policies.held is not None or (self._policies.are_missing and self._fail_closed)

    def prompt(self, text: str, session_id: Optional[str]) -> None:
        with self._sessions.lock:
            self._sessions.of(session_id).prompt(text[:_PROMPT_LENGTH])

    def learn(self, tool: str, args: Any, result: Any, session_id: Optional[str]) -> None:
        with self._sessions.lock:
            memory = self._sessions.of(session_id)
            if self._policies.held is not None:
                self._policies.held.learn(memory, tool, args, result)
            else:
                # Policies that come later may label it.
                memory.learn(tool, {}, (), False, '')

    def check(
        self, tool: str, args: Any, session_id: Optional[str], on_ask: str, abandoned: threading.Event
    ) -> None:
        """Raises CallDenied, and nothing else."""
        held = self._policies.held
        if held is None:
            if self._policies.are_missing and self._fail_closed:
                reason = f'{_REASONS["unchecked"]} Its policies could not be read.'
                raise CallDenied('policy', tool, reason)
            return
        with self._sessions.lock:
            decided = held.decide(self._sessions.of(session_id), tool, args)
        for one in decided.observed[:5]:
            self._event('info', 'policy_observed', f'A policy would {one.decision}', tool, session_id, one)
        if decided.decision == 'deny':
            self._event('warning', 'tool_blocked', 'Denied by a policy:', tool, session_id, decided)
            named = '' if decided.rule is None else f' ({decided.rule})'
            reason = f'The policy of this agent denies this call{named}. Do not retry it.'
            raise CallDenied('policy', tool, reason, decided.rule)
        if decided.decision == 'ask':
            self._ask(tool, args, session_id, on_ask, decided, abandoned)

    def _ask(
        self,
        tool: str,
        args: Any,
        session_id: Optional[str],
        on_ask: str,
        decided: SetDecision,
        abandoned: threading.Event,
    ) -> None:
        digest = args_hash(args)
        state, approval_id, said = 'refused', '', 'Its arguments are too large or nested too deeply.'
        if digest is not None and decided.policy is not None:
            preview = _to_json(_Redaction(_PREVIEW_BYTES - 512).of(args)).decode('utf-8')
            question = {
                'tool': _storable(tool[:200]),
                'args_sha256': digest,
                'args': preview,
                'policy_id': decided.policy.id,
                'policy_version': decided.policy.version,
                'rule': decided.rule,
                'approvals': decided.approvals,
                'wait_seconds': max(30, math.ceil(decided.wait_ms / 1000)),
            }
            if session_id:
                question['session_id'] = _kept_id(str(session_id))
            if decided.why is not None:
                question['why'] = _storable(decided.why[:500])
            state, approval_id, said = self._approvals.ask(question, on_ask == 'wait', abandoned)
        if state == 'away':
            self._problems.note('approvals', f'A person could not be asked about a call: {said}')
        else:
            self._problems.over('approvals')
        if state == 'granted':
            return
        if state == 'away' and not self._fail_closed:
            self._event('warning', 'approval_unavailable', 'Ran without its approval:', tool, session_id, decided)
            return
        if not approval_id:
            self._event('warning', 'tool_blocked', 'Denied by a policy:', tool, session_id, decided)
        raise CallDenied('approval', tool, _approval_reason(state, approval_id, said), decided.rule, approval_id or None)

    def _event(
        self,
        severity: str,
        event_type: str,
        sentence: str,
        tool: str,
        session_id: Optional[str],
        said: Union[SetDecision, Observed],
    ) -> None:
        metadata: Dict[str, Any] = {'tool': _one_line(tool, 100), 'rule': said.rule, 'decision': said.decision}
        if said.policy is not None:
            metadata.update(policy_id=said.policy.id, policy_version=said.policy.version)
        if said.why is not None:
            metadata['why'] = said.why
        by = said.rule or (said.policy.title if said.policy is not None else '')
        self._report(severity, event_type, f'{sentence} {_one_line(tool, 100)}: {by}', session_id, metadata)


def _approval_reason(state: str, approval_id: str, said: str) -> str:
    if state == 'pending':
        return f'Denied: approval {approval_id} is pending. Retry the same call later.'
    because = {
        'denied': f'It was denied{f" ({said})" if said else ""}. Do not retry it.',
        'expired': 'Nobody approved it in time. Do not retry it.',
    }.get(state, f'Nobody could be asked. {said}')
    return f'The policy of this agent asks a person. {because}'


# --- The monitor -----------------------------------------------------------------------------------------------------

_monitors: 'weakref.WeakSet[Monitor]' = weakref.WeakSet()


class Monitor:
    """One watched agent. Use it as a context manager, or call `start()` and `stop()`.

    url             of the service, such as https://wardline.example.com
    key             of scope agent, bound to this instance
    instance_id     lower-case letters, digits, _ and -, at most 64
    name            for people, at most 80 characters
    fail_mode       'open' keeps the last known state while the service is away. 'closed' suspends `stale_after`
                    seconds after the last contact, and before the first one
    state_file      keeps a suspension over a restart; made with mode 0600
    suspend_log     JSON lines, one for each suspension and resume; default: `<state_file>.log`. Without either
                    file the logger `wardline` has the only record
    ssl_context     to trust a private authority; certificates are verified unless this says otherwise
    tags            up to 20, such as 'env:production', shown and filtered by in the fleet. Default: the last ones stay
    parent          instance id of the agent that started this one: while that one is suspended, so is this one. Set
                    once, for good. Default: WARDLINE_PARENT in the environment; the own id there counts as none
    public_key      the x of the key in <url>/.well-known/wardline-keys.json, or several separated by commas: kills,
                    resumes and poll answers without a valid signature are ignored. Default: not verified
    result_text     also report the text of results and answers, without secrets and at most 1,000 characters.
                    Default: only their length, a keyed hash and the formats of secrets in them
    on_ask          when a policy asks a person about a call: 'wait' waits for the decision, 'deny' raises CallDenied at
                    once, and the same call made again later takes the approval

    Proxies are taken from the environment as urllib does: http_proxy, https_proxy, no_proxy.

    After a fork the child keeps the state, sends nothing of what waited in the parent, and starts new threads
    when the monitor is first used in it.
    """

    _supervisor: Optional['_Supervisor'] = None

    def __init__(
        self,
        url: str,
        key: str,
        instance_id: str,
        name: str,
        agent_type: str = 'python',
        fail_mode: str = 'open',
        state_file: Optional[str] = None,
        stale_after: float = 120,
        suspend_log: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None,
        public_key: Optional[str] = None,
        tags: Optional[Sequence[str]] = None,
        result_text: bool = False,
        on_ask: str = 'wait',
        parent: Optional[str] = None,
    ) -> None:
        if parent is None:
            parent = os.environ.get('WARDLINE_PARENT') or None
        if parent is not None and not _INSTANCE_ID.fullmatch(parent):
            raise ValueError('parent must have 1 to 64 lower-case letters, digits, _ or -')
        if on_ask not in ('wait', 'deny'):
            raise ValueError("on_ask must be 'wait' or 'deny'")
        if not _INSTANCE_ID.fullmatch(instance_id):
            raise ValueError('instance_id must have 1 to 64 lower-case letters, digits, _ or -')
        if not name.strip() or len(name) > 80:
            raise ValueError('name must have 1 to 80 characters')
        if len(agent_type) > 100:
            raise ValueError('agent_type must have at most 100 characters')
        if tags is not None and (isinstance(tags, str) or len(tags) > 20 or not all(map(_TAG.fullmatch, tags))):
            raise ValueError('tags must be at most 20 strings, each of 1 to 40 lower-case letters, digits, _ . : and -')
        if fail_mode not in ('open', 'closed'):
            raise ValueError("fail_mode must be 'open' or 'closed'")
        if not (math.isfinite(stale_after) and stale_after > 0):
            raise ValueError('stale_after must be a number of seconds above 0')
        self._public_keys = None if public_key is None else _PublicKeys(instance_id, public_key)
        self._transport = _Transport(url, key, ssl_context)
        self._results = _Results(key, result_text)
        self._on_ask = on_ask
        self._state_file = state_file
        self._sessions = _Sessions()
        self._identity: Dict[str, Any] = {
            'instance_id': instance_id,
            'name': _storable(name),
            'agent_type': _storable(agent_type),
            'fail_mode': fail_mode,
        }
        if tags is not None:
            self._identity['tags'] = list(tags)
        # A process may hand its environment to those that it starts.
        if parent is not None and parent != instance_id:
            self._identity['parent_instance_id'] = parent
        self._stale_after = float(stale_after)
        self._record = _HostRecord(instance_id, state_file, suspend_log)
        self._callbacks: Dict[str, List[Callable[..., Any]]] = {'suspend': [], 'resume': [], 'error': []}
        self._running = False
        self._restart_after_fork = False
        self._unchecked = 0
        recorded = self._record.read()
        self._assemble(recorded or _Control(), None)
        if recorded is None:
            self._problems.note('state file', 'The state file cannot be used: an earlier suspension is not known.')
        _monitors.add(self)

    def _assemble(self, control: _Control, last_contact: Optional[float]) -> None:
        """Makes the parts that belong to one process."""
        boot_id = uuid.uuid4().hex
        self._transport.renew()
        instance_id, fail_closed = self._identity['instance_id'], self._identity['fail_mode'] == 'closed'
        # Reentrant, as all locks here: a signal handler may use the monitor while the thread it interrupts does.
        self._lifecycle = threading.RLock()
        self._stopping = threading.Event()
        self._threads: List[threading.Thread] = []
        self._metrics = _Metrics()
        self._notices = _Notices(self._callbacks)
        self._problems = _Problems(self._notices)
        self._outbox = _Outbox(self._transport, instance_id, boot_id, self._problems)
        self._decoys = _DecoyChecks(self._transport, instance_id, self._problems)
        self._outputs = _Outputs(self._transport, instance_id, self._decoys)
        self._kill_switch = _KillSwitch(
            fail_closed,
            self._stale_after,
            self._record,
            self._outbox,
            self._notices,
            self._problems,
            self._report_metrics,
            control,
            last_contact,
        )
        self._sessions.renew()
        # They are decided inside the agent, not by its supervisor.
        policy_file = self._state_file if self._supervisor is None else None
        self._policies = _Policies(self._transport, instance_id, policy_file, self._public_keys, self._problems)
        self._approvals = _Approvals(self._transport, instance_id, self._kill_switch)
        self._policy_guard = _PolicyGuard(
            self._policies, self._approvals, self._sessions, self._problems, fail_closed, self.report
        )
        # A supervisor sends no boot id: the client inside its agent does, and two would look like a clone.
        heartbeat = {**self._identity, 'boot_id': boot_id}
        if self._supervisor is not None:
            # Nor a type: the agent may give itself one.
            del heartbeat['boot_id'], heartbeat['agent_type']
        self._link = _Link(
            self._transport,
            heartbeat,
            self._stale_after,
            self._kill_switch,
            self._decoys,
            self._problems,
            self._public_keys,
            self._policies,
            self._approvals,
            self._supervisor,
        )
        self._transport.on_suspended = self._link.hear_suspended

    # --- Start and stop

    def start(self, timeout: float = 5.0) -> Monitor:
        """Starts the threads and waits until the service has sent the state, at most `timeout` seconds: an agent that
        was suspended while it was away does not begin to work. In asyncio: `await asyncio.to_thread(monitor.start)`."""
        self._launch()
        self._link.polled.wait(timeout)
        self._kill_switch.settle()
        return self

    def stop(self, timeout: float = 5.0) -> None:
        """Sends what waits, for at most `timeout` seconds, and ends the threads. The last known state stays."""
        deadline = time.monotonic() + timeout
        with self._lifecycle:
            if not self._running:
                return
            self._report_metrics()
            self._outbox.flush(timeout)
            self._outputs.flush(max(0.0, deadline - time.monotonic()))
            self._running = False
            self._stopping.set()
            self._approvals.end()
            self._outbox.wake()
            self._outputs.wake()
            self._link.end()
            self._notices.end()
            for thread in self._threads:
                if thread is not threading.current_thread():
                    thread.join(max(0.0, min(1.0, deadline - time.monotonic())))
            self._outbox.abandon()

    def __enter__(self) -> Monitor:
        return self.start()

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def _launch(self) -> None:
        with self._lifecycle:
            if self._running:
                return
            stopping = self._stopping = threading.Event()
            self._link.begin()
            self._approvals.stopping.clear()
            loops = (
                self._link.run_heartbeats,
                self._link.run_polls,
                self._link.run_stream,
                self._outbox.run,
                self._outputs.run,
                self._notices.run,
                self._run_metrics,
            )
            self._threads = []
            try:
                for loop in loops:
                    thread = threading.Thread(target=self._keep_up, args=(loop, stopping), name='wardline', daemon=True)
                    thread.start()
                    self._threads.append(thread)
                self._running = True
            except RuntimeError:
                stopping.set()
                self._link.polled.set()
                self._problems.note('threads', 'No threads could be started: this agent is not watched.')

    def _keep_up(self, loop: Callable[[threading.Event], None], stopping: threading.Event) -> None:
        """A thread that ended would end the kill switch, so that nothing ends it but `stopping`."""
        while not stopping.is_set():
            try:
                loop(stopping)
            except Exception as error:  # noqa: BLE001
                self._problems.note('threads', f'The monitor failed internally: {type(error).__name__}')
                stopping.wait(_full_jitter(1))

    def _after_fork_in_child(self) -> None:
        self._restart_after_fork = self._running or self._restart_after_fork
        self._running = False
        parent, policies = self._kill_switch, self._policies
        self._assemble(parent.control, parent.last_contact)
        self._kill_switch.heard = parent.heard
        self._policies.adopt(policies)

    def _resume_after_fork(self) -> None:
        if self._restart_after_fork:
            self._restart_after_fork = False
            self._launch()

    # --- State

    @property
    def suspended(self) -> bool:
        """Whether the agent has to stand still."""
        self._resume_after_fork()
        return self._kill_switch.state()[0]

    @property
    def reason(self) -> Optional[str]:
        """Why it is suspended; None when it is not."""
        return self._kill_switch.state()[1]

    def wait_suspended(self, timeout: Optional[float] = None) -> bool:
        """Waits until the agent is suspended. False when that did not happen within `timeout` seconds."""
        self._resume_after_fork()
        return self._kill_switch.event.wait(timeout)

    @property
    def health(self) -> Health:
        suspended, reason = self._kill_switch.state()
        contact = self._kill_switch.last_contact
        queued, dropped = self._outbox.state()
        return Health(
            running=self._running,
            suspended=suspended,
            reason=reason,
            fail_mode=self._identity['fail_mode'],
            control_version=self._kill_switch.control.version,
            policy_version=self._policies.version,
            stream_connected=self._link.stream_connected,
            seconds_since_contact=None if contact is None else time.monotonic() - contact,
            stale=self._kill_switch.is_stale(),
            decoy_checks=not self._decoys.none_planted,
            unchecked_calls=self._unchecked,
            queued=queued,
            dropped=dropped,
            callback_errors=self._notices.errors,
            problems=self._problems.current(),
        )

    def on_suspend(self, callback: _Callback) -> _Callback:
        """Calls `callback(reason)` when the agent becomes suspended. Callbacks run one after another in a thread of
        the monitor; what they raise is counted in `health.callback_errors`. May be used as a decorator."""
        self._callbacks['suspend'].append(callback)
        return callback

    def on_resume(self, callback: _Callback) -> _Callback:
        """Calls `callback()` when the agent may go on."""
        self._callbacks['resume'].append(callback)
        return callback

    def on_error(self, callback: _Callback) -> _Callback:
        """Calls `callback(error)` with a WardlineError when something begins to fail, not at every attempt."""
        self._callbacks['error'].append(callback)
        return callback

    # --- Reports

    def report(
        self,
        severity: str,
        event_type: str,
        description: str,
        session_id: Optional[str] = None,
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> bool:
        """Queues an event. False when it was dropped, which is counted. What looks like a secret is taken out; put
        none in all the same, because events are shown whole."""
        try:
            return self._put(_event(severity, event_type, description, session_id, metadata))
        except Exception as error:  # noqa: BLE001 - a report must not end the agent
            return self._drop_invalid(error)

    def report_tool_call(
        self,
        tool_name: str,
        duration_ms: Optional[float] = None,
        session_id: Optional[str] = None,
        params: Optional[Mapping[str, Any]] = None,
        ok: bool = True,
        result: Any = None,
        call_id: Optional[str] = None,
    ) -> bool:
        """Queues a tool call, with at most 4 KiB of its parameters. `ok` says whether it succeeded. Of the result only
        the length, a keyed hash and the formats of secrets are reported, its text only with `result_text`. `call_id` is
        the id that the model gave the call, so that telemetry of the same call is not counted again."""
        try:
            tool = _without_secrets(_one_line(tool_name), 100)
            metadata: Dict[str, Any] = {'toolName': tool, 'ok': ok}
            if duration_ms is not None:
                metadata['durationMs'] = round(duration_ms, 3)
            if isinstance(call_id, str) and call_id:
                metadata['callId'] = _storable(call_id[:200].replace('\0', ''))
            metadata.update(_reported_fields(str(tool_name), params))
            if params is not None:
                metadata['params'] = _Redaction(_PARAMS_BYTES).of(params)
            read = self._results.of(result)
            if read is not None:
                metadata['result'] = read[0]
            event = _event('info', 'tool_call', tool if ok else f'{tool} failed', session_id, None)
            is_queued = self._put({**event, 'metadata': metadata})
            if read is not None:
                self._outputs.add('result', read[1], tool)
            return is_queued
        except Exception as error:  # noqa: BLE001 - a report must not end the agent
            return self._drop_invalid(error)

    def report_answer(self, answer: Any, session_id: Optional[str] = None) -> bool:
        """Queues what the agent answers to its user or to another agent, like the result of a tool. False as well for
        an answer without a text, and while the agent is suspended: one that reports then is at work."""
        try:
            read = None if self.suspended else self._results.of(answer)
            if read is None or read[0]['length'] == 0:
                return False
            event = _event('info', 'model_answer', 'Answer', session_id, None)
            is_queued = self._put({**event, 'metadata': {'result': read[0]}})
            self._outputs.add('answer', read[1], None)
            return is_queued
        except Exception as error:  # noqa: BLE001 - a report must not end the agent
            return self._drop_invalid(error)

    def _put(self, event: Dict[str, Any]) -> bool:
        self._resume_after_fork()
        return self._outbox.put(event)

    def _drop_invalid(self, error: Exception) -> bool:
        said = str(error) if isinstance(error, _Unusable) else type(error).__name__
        self._outbox.drop('invalid', 1)
        self._problems.note('report', f'A report was dropped: {said}')
        return False

    def metrics_add(self, name: str, n: float = 1) -> None:
        """Adds to a figure. The sums go out every five minutes and at `stop()`, as `session_metrics`, and start again at zero;
        the service compares them with what is usual for this agent."""
        self._resume_after_fork()
        if not self._metrics.add(name, n):
            self._problems.note('metrics', 'A figure was not counted: its name or number cannot be used.')

    def _run_metrics(self, stopping: threading.Event) -> None:
        while not stopping.wait(_METRICS):
            self._report_metrics()

    def _report_metrics(self) -> None:
        for figures in self._metrics.take():
            self._put({'severity': 'info', 'event_type': 'session_metrics', 'description': figures})

    def flush(self, timeout: float = 5.0) -> bool:
        """Sends what waits. False when that failed or did not end within `timeout` seconds; what is left stays."""
        self._resume_after_fork()
        deadline = time.monotonic() + timeout
        is_sent = self._outbox.flush(timeout if self._running else 0.0)
        self._outputs.flush(max(0.0, deadline - time.monotonic()) if self._running else 0.0)
        return is_sent

    # --- Decoys and guarded tools

    def check_key(self, value: Any, tool: Optional[str] = None) -> bool:
        """Whether the text holds a decoy key; the service has recorded that already. When it does not answer, the fail
        mode does: False if open, True if closed. True as well for what it cannot check, such as a text above 4 MiB."""
        return self._answer(lambda: self._decoys.key(value, tool))

    def check_path(self, path: Any, tool: Optional[str] = None) -> bool:
        """Whether the path, or a path in a command, is a decoy; otherwise as `check_key`."""
        return self._answer(lambda: self._decoys.path(path, tool))

    def _answer(self, check: Callable[[], Optional[bool]]) -> bool:
        self._resume_after_fork()
        try:
            matched = self._attempt(check)
        except _Uncheckable:
            return True
        return self._identity['fail_mode'] == 'closed' if matched is None else matched

    def _attempt(self, check: Callable[[], Optional[bool]]) -> Optional[bool]:
        try:
            return check()
        except _Uncheckable:
            raise
        except Exception as error:  # noqa: BLE001 - values of the agent may raise at any touch
            self._problems.note('check', f'The arguments of a call could not be read: {type(error).__name__}')
            return None

    def prompt(self, text: str, session_id: Optional[str] = None) -> None:
        """Remembers what a person asked of the agent: destinations that stand in it need no question of a flow. Never pass
        what a model wrote or a tool answered."""
        if isinstance(text, str) and text:
            self._policy_guard.prompt(text, session_id)

    def guard_tool(
        self,
        tool: str,
        on_ask: Optional[str] = None,
        session_id: Union[str, Callable[[], Optional[str]], None] = None,
    ) -> Callable[[_Tool], _Tool]:
        """Decorates a function, or a coroutine function: it runs unless the agent is suspended, an argument is a decoy or
        a policy denies it, and is reported. Otherwise it raises Denied. In a coroutine the service is asked from a thread.

        `on_ask` as for the monitor; `session_id`, or a function that returns it for each call, says which calls share what
        was read and asked."""
        if on_ask not in (None, 'wait', 'deny'):
            raise ValueError("on_ask must be 'wait' or 'deny'")

        def decorate(function: _Tool) -> _Tool:
            if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                raise TypeError('guard_tool guards functions and coroutine functions, not generators')
            named = _argument_namer(function)

            @functools.wraps(function)
            def guarded(*args: Any, **kwargs: Any) -> Any:
                call = _Call(self, tool, named(args, kwargs), on_ask or self._on_ask, session_id)
                call.refuse_if_suspended()
                if not self._decoys.none_planted:
                    call.refuse_decoys()
                call.refuse_by_policy()
                with call:
                    call.result = function(*args, **kwargs)
                    return call.result

            @functools.wraps(function)
            async def guarded_coroutine(*args: Any, **kwargs: Any) -> Any:
                call = _Call(self, tool, named(args, kwargs), on_ask or self._on_ask, session_id)
                call.refuse_if_suspended()
                if not self._decoys.none_planted:
                    await call.refuse_decoys_in_thread()
                await call.refuse_by_policy_in_thread()
                with call:
                    call.result = await function(*args, **kwargs)
                    return call.result

            is_coroutine = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
                getattr(function, '__call__', None)
            )
            return cast(_Tool, guarded_coroutine if is_coroutine else guarded)

        return decorate


class _Call:
    """One call of a guarded tool. As a context it reports how the call went."""

    def __init__(
        self,
        monitor: Monitor,
        tool: str,
        arguments: Dict[str, Any],
        on_ask: str,
        session_id: Union[str, Callable[[], Optional[str]], None],
    ) -> None:
        self._monitor = monitor
        self._tool = tool
        self._arguments = arguments
        self._on_ask = on_ask
        self._session_id = session_id() if callable(session_id) else session_id
        self._abandoned = threading.Event()
        """Set when the caller no longer waits: an approval must not be taken for a call that nobody makes."""
        self._began = 0.0
        self.result: Any = None

    def refuse_if_suspended(self) -> None:
        self._monitor._resume_after_fork()
        suspended, reason = self._monitor._kill_switch.state()
        if suspended:
            reason_text = f'This agent is suspended ({reason}). It must stop here and not retry.'
            raise Denied('suspended', self._tool, reason_text)

    def refuse_decoys(self) -> None:
        """Raises Denied, and nothing else."""
        values = list(self._arguments.values())
        try:
            matched = self._monitor._attempt(lambda: self._monitor._decoys.arguments(values, self._tool))
        except _Uncheckable as error:
            raise Denied('unchecked', self._tool, f'{_REASONS["unchecked"]} {error}') from None
        if matched:
            raise Denied('decoy', self._tool, _REASONS['decoy'])
        if matched is None:
            self._pass_unchecked()
        # The question took its time, and a kill may have come meanwhile.
        self.refuse_if_suspended()

    async def refuse_decoys_in_thread(self) -> None:
        try:
            await asyncio.to_thread(self.refuse_decoys)
        except RuntimeError:
            # The event loop gives no threads any more.
            self._pass_unchecked()

    def refuse_by_policy(self) -> None:
        """Raises Denied, and nothing else."""
        guard = self._monitor._policy_guard
        if guard.is_needed():
            guard.check(self._tool, self._arguments, self._session_id, self._on_ask, self._abandoned)
            # A person took their time, and a kill may have come meanwhile.
            self.refuse_if_suspended()

    async def refuse_by_policy_in_thread(self) -> None:
        """In a separate thread: a call may wait for a person for hours, and the event loop has few threads."""
        if not self._monitor._policy_guard.is_needed():
            return
        loop = asyncio.get_running_loop()
        done: 'asyncio.Future[None]' = loop.create_future()

        def settle(error: Optional[BaseException]) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        def run() -> None:
            failure: Optional[BaseException] = None
            try:
                self.refuse_by_policy()
            except BaseException as error:  # noqa: BLE001 - it goes to the caller
                failure = error
            with contextlib.suppress(RuntimeError):
                # Unless the loop is closed: then nobody waits.
                loop.call_soon_threadsafe(settle, failure)

        threading.Thread(target=run, name='wardline', daemon=True).start()
        try:
            await done
        except asyncio.CancelledError:
            self._abandoned.set()
            raise

    def _pass_unchecked(self) -> None:
        self._monitor._unchecked += 1
        if self._monitor._identity['fail_mode'] == 'closed':
            raise Denied('unchecked', self._tool, _REASONS['unchecked'])

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, _type: object, error: Optional[BaseException], _traceback: object) -> None:
        duration = (time.monotonic() - self._began) * 1000
        self._monitor._policy_guard.learn(self._tool, self._arguments, self.result, self._session_id)
        self._monitor.report_tool_call(
            self._tool, duration, self._session_id, self._arguments, ok=error is None, result=self.result
        )


class _Unusable(Exception):
    """A report that the service would refuse; the message holds nothing of it."""


def _event(
    severity: str,
    event_type: str,
    description: str,
    session_id: Optional[str],
    metadata: Optional[Mapping[str, Any]],
) -> Dict[str, Any]:
    if severity not in _SEVERITIES:
        raise _Unusable(f'severity must be one of {", ".join(_SEVERITIES)}')
    if not isinstance(event_type, str) or not _EVENT_TYPE.fullmatch(event_type):
        raise _Unusable('event_type must be snake_case with at most 100 characters')
    if not isinstance(description, str) or not description:
        raise _Unusable('description must be a string')
    # Redaction would take the value of `token_count` for a token.
    figures = event_type == 'session_metrics' and _is_figures(description)
    event: Dict[str, Any] = {
        'severity': severity,
        'event_type': event_type,
        'description': description if figures else _without_secrets(description, _DESCRIPTION),
    }
    if session_id:
        event['session_id'] = _kept_id(str(session_id))
    if metadata is not None:
        if not isinstance(metadata, Mapping):
            raise _Unusable('metadata must be a dictionary')
        event['metadata'] = _Redaction(_METADATA_BYTES).of(metadata)
    return event


def _is_figures(description: str) -> bool:
    try:
        return len(description) <= _DESCRIPTION and all(
            isinstance(value, (int, float)) for value in json.loads(description).values()
        )
    except (ValueError, AttributeError, RecursionError):
        return False


def _argument_namer(function: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any]], Dict[str, Any]]:
    """Gives the arguments of a call their names. The object of a method is not an argument."""
    try:
        signature: Optional[inspect.Signature] = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None

    def named(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Dict[str, Any]:
        if signature is None:
            return {'args': list(args), **kwargs}
        try:
            bound = dict(signature.bind_partial(*args, **kwargs).arguments)
        except TypeError:
            # The function itself will say what is wrong.
            return {'args': list(args), **kwargs}
        first = next(iter(signature.parameters), '')
        if first in ('self', 'cls'):
            bound.pop(first, None)
        return bound

    return named


def _after_fork_in_child() -> None:
    for monitor in list(_monitors):
        monitor._after_fork_in_child()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_after_fork_in_child)


@atexit.register
def _stop_all() -> None:
    # Reports of the last moment still go out, and what does not is counted.
    for monitor in list(_monitors):
        monitor.stop(timeout=2.0)


# --- Supervisor ------------------------------------------------------------------------------------------------------

# Seconds. What left its parent, its session and its environment is only known if a sweep saw it before.
_SWEEP = 1.0
# Another process may continue what was stopped.
_HELD_SWEEP = 0.5
# Sweeps take at most a twentieth of a core, also on a machine with tens of thousands of processes.
_SWEEP_SHARE = 20
# What cannot be stopped in this time is reported as left; more attempts follow.
_HOLD_TIMEOUT = 5.0
# Sweeps in a row that find nothing new and nothing that runs: what began behind the back of the first is in the second.
_QUIET_SWEEPS = 2
# Processes of others come and go as well, so that their ends delay the end of the supervisor for this long only.
_UNSETTLED = 1.0
# Between SIGTERM and SIGKILL.
_GRACE = 5.0
# A watcher that is ended all the time must not keep a processor busy.
_WATCHER_PAUSE = 1.0
# Of a process's environment, for the token.
_ENVIRONMENT_BYTES = 1024 * 1024
_SUPERVISED = 'WARDLINE_SUPERVISED'
_KEY_VARIABLES = ('WARDLINE_KEY', 'WARDLINE_KEY_FILE')
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_HAS_PROC = os.path.exists('/proc/self/stat')


class _Process(NamedTuple):
    pid: int
    parent: int
    group: int
    session: int
    state: str
    started: str
    """With the pid it identifies the process: a pid is given again."""


def _read_file(path: str, most: int = 4096) -> bytes:
    """Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, most)
    finally:
        os.close(handle)


def _read_process(path: str, pid: int) -> _Process:
    """From a `stat` file of /proc. Raises OSError once the process has ended."""
    content = _read_file(path)
    # The name before may hold anything, also a bracket.
    fields = content[content.rindex(b')') + 2 :].split()
    state, parent, group, session = fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3])
    return _Process(pid, parent, group, session, state, fields[19].decode())


def _process(pid: int) -> Optional[_Process]:
    """None once it has ended."""
    try:
        found = _read_process(f'/proc/{pid}/stat', pid)
        if found.state != 'Z':
            return None if found.state in 'Xx' else found
        # The main thread has ended; others may run.
        for task in os.listdir(f'/proc/{pid}/task'):
            with contextlib.suppress(OSError):
                thread = _read_process(f'/proc/{pid}/task/{task}/stat', pid)
                if thread.state not in 'ZXx':
                    return found._replace(state=thread.state)
    except (OSError, ValueError):
        pass
    return None


def _newest_first(pids: Iterable[int]) -> List[int]:
    """Processes that start another one and end are among the newest. Pids start over at the lowest one."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        newest = int(_read_file('/proc/loadavg').split()[-1])
        return sorted(pids, key=lambda pid: (pid > newest, -pid))
    return sorted(pids, reverse=True)


def _processes_of_proc(on_read: Optional[Callable[[_Process], None]] = None) -> Tuple[Dict[int, _Process], Set[int]]:
    """All processes, and the pids of those that were gone when they were read."""
    found: Dict[int, _Process] = {}
    vanished: Set[int] = set()
    for pid in _newest_first(int(name) for name in os.listdir('/proc') if name.isdigit()):
        process = _process(pid)
        if process is not None:
            found[pid] = process
            if on_read is not None:
                on_read(process)
        elif not os.path.exists(f'/proc/{pid}'):
            vanished.add(pid)
    return found, vanished


def _processes_of_ps() -> Tuple[Dict[int, _Process], Set[int]]:
    """The same where the system has no /proc. Processes carry no token here."""
    found: Dict[int, _Process] = {}
    with subprocess.Popen(
        ['ps', '-A', '-o', 'pid=,ppid=,pgid=,stat=,lstart='],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C'},
    ) as ps:
        for line in ps.communicate()[0].decode('utf-8', 'replace').splitlines():
            fields = line.split(None, 4)
            if len(fields) == 5 and fields[3][0] not in 'ZX' and int(fields[0]) != ps.pid:
                pid = int(fields[0])
                session = 0
                with contextlib.suppress(OSError):
                    session = os.getsid(pid)
                found[pid] = _Process(pid, int(fields[1]), int(fields[2]), session, fields[3][0], fields[4])
    return found, set()


def _signal_process(process: _Process, number: int) -> bool:
    """Whether this process may be sent signals. Another one that has its pid by now is sent none."""
    try:
        if not _HAS_PROC:
            os.kill(process.pid, number)
        elif hasattr(os, 'pidfd_open') and hasattr(signal, 'pidfd_send_signal'):
            handle = os.pidfd_open(process.pid)
            try:
                now = _process(process.pid)
                if now is not None and now.started == process.started:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        else:
            now = _process(process.pid)
            if now is not None and now.started == process.started:
                os.kill(process.pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    except OSError:
        # A system without pidfds, or one in which a filter of system calls refuses them.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
    return True


class _Cgroup:
    """A cgroup v2, which also holds what no sweep finds. A process with the rights of the supervisor can leave it, so
    that it is never the whole tree."""

    def __init__(self, path: str) -> None:
        self.path = path

    @staticmethod
    def make(name: str) -> 'Optional[_Cgroup]':
        """None where the system has none, or this process may not make one."""
        try:
            own = re.search(r'^0::(/.*)$', _read_file('/proc/self/cgroup', 65_536).decode(), re.MULTILINE)
            mounts = _read_file('/proc/self/mountinfo', 1024 * 1024).decode('utf-8', 'replace')
            mount = re.search(r'^\d+ \d+ \S+ (/\S*) (/\S*) .* - cgroup2 ', mounts, re.MULTILINE)
            # The path of a cgroup outside of the namespace begins with `/..`.
            if own is None or mount is None or own.group(1).startswith('/..'):
                return None
            place = os.path.normpath(mount.group(2) + '/' + os.path.relpath(own.group(1), mount.group(1)))
            cgroup = _Cgroup(os.path.join(place, name))
            _Cgroup._remove_leftovers(place)
            os.mkdir(cgroup.path)
        except (OSError, ValueError):
            return None
        if os.access(os.path.join(cgroup.path, 'cgroup.freeze'), os.W_OK):
            return cgroup
        cgroup.remove()
        return None

    @staticmethod
    def _remove_leftovers(place: str) -> None:
        """What supervisors have left that were killed together with their watchers. One that waits for a resume is empty
        as well."""
        for name in os.listdir(place):
            found = re.fullmatch(r'wardline-(\d+)-[0-9a-f]{8}', name, re.ASCII)
            if found is not None and not os.path.exists(f'/proc/{found.group(1)}'):
                left = _Cgroup(os.path.join(place, name))
                with contextlib.suppress(OSError):
                    if b'populated 0' in _read_file(os.path.join(left.path, 'cgroup.events')):
                        left.remove()

    def _write(self, name: str, text: str) -> bool:
        try:
            with open(os.path.join(self.path, name), 'w', encoding='ascii') as file:
                file.write(text)
            return True
        except OSError:
            return False

    def add(self, pid: int) -> bool:
        # A supervisor of another namespace of pids does not see this process, and may have removed an empty cgroup.
        with contextlib.suppress(OSError):
            os.makedirs(self.path, exist_ok=True)
        return self._write('cgroup.procs', str(pid))

    def freeze(self, frozen: bool) -> None:
        self._write('cgroup.freeze', '1' if frozen else '0')

    def kill(self) -> None:
        """Since Linux 5.14; before that the sweeps end the processes."""
        self._write('cgroup.kill', '1')

    def is_thawed(self) -> bool:
        """Whether another process has undone `freeze`."""
        with contextlib.suppress(OSError):
            return _read_file(os.path.join(self.path, 'cgroup.freeze')).strip() != b'1'
        return True

    def is_frozen(self) -> bool:
        with contextlib.suppress(OSError):
            return b'frozen 1' in _read_file(os.path.join(self.path, 'cgroup.events'))
        return False

    def pids(self) -> Set[int]:
        """Of this cgroup and of those that the agent may have made in it."""
        found: Set[int] = set()
        for folder, _, _ in os.walk(self.path):
            with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, 'cgroup.procs'), 'rb') as file:
                found.update(map(int, file.read().split()))
        return found

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            for folder, _, _ in os.walk(self.path, topdown=False):
                os.rmdir(folder)


class _Held(NamedTuple):
    processes: int
    left: int
    """Processes that still run: this user may not stop them, or they did not stop in time."""


class _Tree:
    """The processes that an agent started, as far as the system can tell. Its methods may be called from any thread."""

    def __init__(self, token: str, cgroup: Optional[_Cgroup], parent: Optional[int], own_session: int) -> None:
        self._token = f'{_SUPERVISED}={token}'.encode()
        self._cgroup = cgroup
        self._parent = parent
        """Its descendants are in the tree; None: only those of known processes."""
        self._own_session = own_session
        self._lock = threading.RLock()
        self.spared: Set[int] = {os.getpid()}
        self.root: Optional[_Process] = None
        self.known: Dict[int, str] = {}
        """The start times of all members that were alive in the last sweep."""
        self._foreign: Dict[int, str] = {}
        """Processes whose environment has no token."""
        self._groups: Set[int] = set()
        self._in_cgroup: Set[int] = set()
        """Processes that freeze with the cgroup."""
        self._signalled: Dict[int, str] = {}
        self._stopped_before: Dict[int, str] = {}
        """Members that stood still before they were held, and are not continued."""
        self._is_held = self._was_frozen = False
        self._listed: Set[int] = set()
        self._unread: Dict[int, _Process] = {}
        """Processes whose environment was empty: they had just ended, or became another program."""
        self.is_settled = False
        """Whether the last sweep found no new member, and no process that ended before it was known whose it is."""

    def begin(self, pid: int) -> None:
        self.root = (_process(pid) if _HAS_PROC else None) or _processes_of_ps()[0].get(pid)
        if self.root is not None:
            self.known[pid] = self.root.started

    def sweep(self, on_found: Optional[Callable[[_Process], None]] = None) -> List[_Process]:
        """The members, the oldest first. `on_found` is called at once with those that are known by themselves: one that
        starts another and ends is gone when all have been read."""
        with self._lock:
            before, self._unread = self._unread, {}
            self._in_cgroup = self._cgroup.pids() if self._cgroup is not None else set()

            def look(one: _Process) -> None:
                is_known = self.known.get(one.pid) == one.started
                if on_found is not None and one.pid not in self.spared and (is_known or self._has_token(one)):
                    on_found(one)

            everything, vanished = _processes_of_proc(look) if _HAS_PROC else _processes_of_ps()
            self.is_settled = vanished <= self._listed
            self._listed = set(everything)
            # What began before the agent is not from it.
            first = int(self.root.started) if self.root is not None and _HAS_PROC else 0
            rest = {
                pid: one
                for pid, one in everything.items()
                if pid not in self.spared and (not _HAS_PROC or int(one.started) >= first)
            }
            members: Dict[int, _Process] = {}
            sessions: Set[int] = set()
            groups = {one.group for one in everything.values()} & self._groups

            def belongs(one: _Process) -> bool:
                return (
                    self.known.get(one.pid) == one.started
                    or one.pid in self._in_cgroup
                    or one.parent in members
                    or one.parent == self._parent
                    or one.session in sessions
                    or one.group in groups
                    or self._has_token(one)
                )

            while True:
                joining = [one for one in rest.values() if belongs(one)]
                if not joining:
                    break
                for one in joining:
                    members[one.pid] = rest.pop(one.pid)
                    # A process of our own session may join any group in it, also that of the supervisor.
                    groups.add(one.pid if one.session == self._own_session else one.group)
                    if one.session != self._own_session:
                        sessions.add(one.session)
            self._groups = groups
            self.is_settled &= all(self.known.get(pid) == one.started for pid, one in members.items())
            # Orphans become children of one of them: what has another parent is no orphan of the tree.
            reapers = {os.getpid()}
            parent = os.getppid()
            while parent not in reapers:
                reapers.add(parent)
                parent = everything[parent].parent if parent in everything else parent
            for pid, one in self._unread.items():
                is_news = pid not in before or before[pid].started != one.started
                self.is_settled &= not is_news or one.parent not in reapers
            self.known = {pid: one.started for pid, one in members.items()}
            self._foreign = {pid: one.started for pid, one in rest.items() if self._foreign.get(pid) == one.started}
            return sorted(members.values(), key=lambda one: (int(one.started) if _HAS_PROC else 0, one.pid))

    def _has_token(self, process: _Process) -> bool:
        if not _HAS_PROC or self._foreign.get(process.pid) == process.started:
            return False
        try:
            environment = _read_file(f'/proc/{process.pid}/environ', _ENVIRONMENT_BYTES)
        except PermissionError:
            environment = b'?'
        except OSError:
            environment = b''
        if self._token in environment.split(b'\0'):
            return True
        if environment:
            self._foreign[process.pid] = process.started
        else:
            self._unread[process.pid] = process
        return False

    def _is_still(self, process: _Process, is_frozen: bool) -> bool:
        if process.state in 'Tt':
            return True
        is_in_cgroup = process.pid in self._in_cgroup
        # In state D it waits within the kernel, and stops before it is back in its program.
        is_stopping = is_in_cgroup or self._signalled.get(process.pid) == process.started
        return (is_in_cgroup and is_frozen) or (is_stopping and process.state == 'D')

    def hold(self, reap: Callable[[], None]) -> _Held:
        """Stops all members, until sweeps find none that runs, for at most `_HOLD_TIMEOUT` seconds. `reap` is called
        between sweeps. In a tree that is held already, one that runs again is stopped and reported as left at once."""
        with self._lock:
            was_held = self._is_held
            # Not frozen, and not thawed either, while one of its processes is being killed.
            if self._cgroup is not None and self._cgroup.is_thawed():
                self._was_frozen = False
            began = time.monotonic()
            if self._cgroup is not None:
                self._cgroup.freeze(True)
            quiet = rounds = 0
            is_frozen = False

            def stop_at_once(one: _Process) -> None:
                if one.pid not in self._in_cgroup and not self._is_still(one, is_frozen):
                    _signal_process(one, signal.SIGSTOP)

            while True:
                self._was_frozen |= self._cgroup is not None and self._cgroup.is_frozen()
                is_frozen = self._was_frozen
                members = self.sweep(stop_at_once)
                if not self._is_held:
                    self._is_held = True
                    self._stopped_before = {one.pid: one.started for one in members if one.state == 'T'}
                running = [one for one in members if not self._is_still(one, is_frozen)]
                refused = self._stop(running, rounds == 0)
                quiet = quiet + 1 if len(running) <= refused and self.is_settled else 0
                if was_held and rounds == 0 and len(running) > refused:
                    return _Held(len(members), len(running))
                if quiet >= _QUIET_SWEEPS:
                    return _Held(len(members), len(running))
                if time.monotonic() - began > _HOLD_TIMEOUT:
                    # A tree that still changes runs, although no sweep was in time to see which process.
                    return _Held(len(members), max(len(running), 0 if self.is_settled else 1))
                rounds += 1
                reap()

    def _stop(self, running: Sequence[_Process], by_group: bool) -> int:
        """How many of them this user may not stop."""
        refused = 0
        groups = {one.group for one in running} & self._groups if by_group else set()
        for group in groups:
            # All at one moment: what they start meanwhile is stopped as well.
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGSTOP)
        for one in running:
            self._signalled[one.pid] = one.started
            self._stopped_before.pop(one.pid, None)
            # A second signal only in the next round, if it still runs.
            if one.group not in groups and not _signal_process(one, signal.SIGSTOP):
                refused += 1
        return refused

    def resume(self) -> None:
        """Continues what was stopped: the youngest first, so that no shell sees a child of it standing still."""
        with self._lock:
            for one in reversed(self.sweep()):
                if self._stopped_before.get(one.pid) != one.started:
                    _signal_process(one, signal.SIGCONT)
            self._signalled = {}
            self._is_held = self._was_frozen = False
            if self._cgroup is not None:
                self._cgroup.freeze(False)

    def unreachable(self, members: Iterable[_Process]) -> int:
        """How many of them this user may not stop."""
        return sum(not _signal_process(one, 0) for one in members)

    def _left(self) -> List[_Process]:
        """The members; none only if several sweeps find none: one of them may start another and end meanwhile."""
        began = time.monotonic()
        quiet = 0
        while quiet < _QUIET_SWEEPS:
            members = self.sweep()
            if members:
                return members
            quiet = quiet + 1 if self.is_settled or time.monotonic() - began > _UNSETTLED else 0
        return []

    def end(self, grace: float, reap: Callable[[], None]) -> _Held:
        """SIGTERM, and SIGKILL after the grace in seconds; only SIGKILL if it is 0 or the tree is held."""
        members = self._left()
        most = len(members)
        if members and grace > 0 and not self._is_held:
            until = time.monotonic() + grace
            for one in members:
                _signal_process(one, signal.SIGTERM)
            while members and time.monotonic() < until:
                time.sleep(0.01)
                reap()
                members = self._left()
                most = max(most, len(members))
        until = time.monotonic() + _HOLD_TIMEOUT
        while members and time.monotonic() < until:
            # Stopped first, so that none of them starts another meanwhile.
            most = max(most, self.hold(reap).processes)
            if self._cgroup is not None:
                self._cgroup.kill()
            for one in self.sweep():
                _signal_process(one, signal.SIGKILL)
            reap()
            members = self._left()
        if self._cgroup is not None:
            self._cgroup.remove()
        return _Held(most, len(members))


def _watch(lines: Iterable[bytes]) -> None:
    """Ends the tree once the supervisor has ended: the first line is the tree, the others are processes in it."""
    # The end of a service sends them to all its processes.
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
    source = iter(lines)
    given = _json_object(next(source, b''))
    cgroup = _Cgroup(given['cgroup']) if 'cgroup' in given else None
    tree = _Tree(given['token'], cgroup, None, given['session'])
    tree.spared.add(given['supervisor'])
    for line in source:
        pid, started = line.decode().rstrip('\n').split(' ', 1)
        tree.known[int(pid)] = started
    tree.end(0, lambda: None)


class _Terminal:
    """The terminal in whose foreground the supervisor was started, which the agent takes over."""

    def __init__(self) -> None:
        self._handle: Optional[int] = None
        self._saved: Any = None
        self._agent: Optional[Tuple[int, Any]] = None
        """Its process group and its settings, while the supervisor has the terminal back."""
        try:
            handle = os.open('/dev/tty', os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self.exists = False
            return
        self.exists = True
        if termios is None or os.tcgetpgrp(handle) != os.getpgrp():
            os.close(handle)
            return
        self._handle = handle
        self._saved = termios.tcgetattr(handle)

    def give(self, group: int) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._handle, group)

    def take(self) -> None:
        """So that Ctrl-C reaches the supervisor while the agent stands still."""
        if self._handle is None or self._agent is not None:
            return
        with contextlib.suppress(OSError, termios.error):
            self._agent = (os.tcgetpgrp(self._handle), termios.tcgetattr(self._handle))
            os.tcsetpgrp(self._handle, os.getpgrp())
            termios.tcsetattr(self._handle, termios.TCSADRAIN, self._saved)

    def give_back(self) -> None:
        if self._handle is None or self._agent is None:
            return
        (group, settings), self._agent = self._agent, None
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetattr(self._handle, termios.TCSADRAIN, settings)
            os.tcsetpgrp(self._handle, group)

    def restore(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError, termios.error):
                os.tcsetpgrp(self._handle, os.getpgrp())
                termios.tcsetattr(self._handle, termios.TCSADRAIN, self._saved)


class _CommandFault(Exception):
    """Ends the command with one sentence for people and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


_FAILED, _USAGE, _CONFIGURATION, _NOT_RUN, _NOT_FOUND = 1, 64, 78, 126, 127


class _RunOptions(NamedTuple):
    command: Sequence[str]
    instance: Optional[str] = None
    on_suspend: str = 'freeze'
    end_after: Optional[int] = None
    on_crash: str = 'end'
    user: Optional[str] = None


class _Supervision(Monitor):
    def __init__(self, supervisor: '_Supervisor', settings: Mapping[str, Any]) -> None:
        self._supervisor = supervisor
        super().__init__(**settings)

    @property
    def link(self) -> _Link:
        return self._link

    def state(self) -> Tuple[_Control, bool, Optional[str]]:
        # In this order: a change in between is announced, and looked at again.
        control = self._kill_switch.control
        return (control, *self._kill_switch.state())

    def launch(self) -> None:
        self._launch()


class _Supervisor:
    """Starts an agent, holds it while it is suspended, and ends with it."""

    def __init__(self, options: _RunOptions, settings: Mapping[str, Any], account: Optional[Any]) -> None:
        self._options = options
        self._account = account
        self._is_isolated = account is not None and account.pw_uid != os.geteuid()
        self._token = uuid.uuid4().hex
        self._terminal = _Terminal()
        self._is_reaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        # The key is in this process: others of the same user read neither its memory nor its environment.
        _prctl(_PR_SET_DUMPABLE, 0)
        # Without the token, one of another namespace with the same pid would have its name.
        self._cgroup = _Cgroup.make(f'wardline-{os.getpid()}-{self._token[:8]}')
        self._tree = _Tree(self._token, self._cgroup, os.getpid(), os.getsid(0))
        self._has_begun = False
        self._has_ended = False
        """By a suspension."""
        self._is_held = False
        self._held_at = 0.0
        self._woken_at: Optional[float] = None
        self._code: Optional[int] = None
        self._processes = self._left = 0
        self._signals: Deque[int] = collections.deque()
        self._watcher: Optional['subprocess.Popen[bytes]'] = None
        self._watched: Dict[int, str] = {}
        self._watcher_due = 0.0
        self.applied = 0
        """The control version that is in effect for the tree."""
        self._evidence: Tuple[int, Optional[Dict[str, Any]]] = (0, None)
        # Before the fork: it raises for settings that cannot work.
        self._monitor = _Supervision(self, settings)
        self._pipe = os.pipe()
        for end in self._pipe:
            os.set_blocking(end, False)
        self._take_signals()
        self._child, self._go, self._fault = self._fork()

    # What the link to the service reads, in its threads.

    def wake(self) -> None:
        if self._woken_at is None:
            self._woken_at = time.monotonic()
        with contextlib.suppress(OSError):
            os.write(self._pipe[1], b'\0')

    def evidence(self, version: int) -> Optional[Dict[str, Any]]:
        """The result of this suspension for the tree; None for a resume."""
        return self._evidence[1] if self._evidence[0] == version else None

    def heartbeat(self) -> Dict[str, Any]:
        return {'processes': self._processes, 'isolated': self._is_isolated}

    def drill(self) -> Dict[str, Any]:
        members = self._tree.sweep() if self._has_begun else []
        # The watcher is to know what was found.
        self.wake()
        return {'processes': len(members), 'unreachable': self._tree.unreachable(members)}

    # Start

    def _take_signals(self) -> None:
        signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._before: Dict[int, Any] = {signal.SIGCHLD: signal.SIG_DFL}
        # A background process that changes the foreground of its terminal would be stopped.
        self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        for number in _FORWARDED:
            before = signal.getsignal(number)
            # As with nohup.
            if before != signal.SIG_IGN:
                self._before[number] = signal.SIG_DFL
                signal.signal(number, lambda received, _frame: self._signals.append(received))

    def _fork(self) -> Tuple[int, int, int]:
        """The process that becomes the agent, before there are threads and while it may still have to wait. Returns its
        pid, the pipe that lets it go, and the pipe on which it says why it could not."""
        wait, go = os.pipe()
        fault, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(go)
                os.close(fault)
                signal.set_wakeup_fd(-1)
                if self._terminal.exists:
                    os.setpgid(0, 0)
                else:
                    os.setsid()
                # Empty when the supervisor has ended.
                if os.read(wait, 1) == b'':
                    os._exit(0)
                self._become()
            except OSError as error:
                code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN
                os.write(tell, f'{code} {os.strerror(error.errno or 0)}'.encode())
            finally:
                # Without the cleanup of the supervisor.
                os._exit(_NOT_RUN)
        os.close(wait)
        os.close(tell)
        os.set_blocking(fault, False)
        return child, go, fault

    def _become(self) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in _KEY_VARIABLES}
        environment[_SUPERVISED] = self._token
        account = self._account
        if account is not None:
            os.initgroups(account.pw_name, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            environment.update(HOME=account.pw_dir, USER=account.pw_name, LOGNAME=account.pw_name)
        for number, before in self._before.items():
            signal.signal(number, before)
        # Python ignores it, and programs expect that it ends them.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        command = list(self._options.command)
        # A folder of the path that this user may not search is none that has the command.
        program = command[0] if os.sep in command[0] else shutil.which(command[0])
        if program is None:
            raise FileNotFoundError(errno.ENOENT, '')
        os.execve(program, command, environment)

    def _start_watcher(self) -> None:
        if self._options.on_crash == 'leave':
            return
        # Blocked in the watcher as well, which ignores them only once its program has been read.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, '-I', os.path.abspath(__file__), _WATCH],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name not in _KEY_VARIABLES},
                # A signal to the group or the session of the supervisor does not reach it.
                start_new_session=True,
                bufsize=0,
                cwd='/',
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._tree.spared.add(self._watcher.pid)
        os.set_blocking(self._watcher.stdin.fileno(), False)  # type: ignore[union-attr]
        tree: Dict[str, Any] = {'token': self._token, 'session': os.getsid(0), 'supervisor': os.getpid()}
        if self._cgroup is not None:
            tree['cgroup'] = self._cgroup.path
        self._watched = {}
        self._tell_watcher(_to_json(tree) + b'\n')
        self._tell_members()

    def _tell_watcher(self, text: bytes) -> None:
        watcher = self._watcher
        if watcher is None or not text:
            return
        with contextlib.suppress(OSError):
            if watcher.stdin is not None and watcher.stdin.write(text) == len(text):
                return
        # It has ended, or takes nothing: its end brings another one.
        with contextlib.suppress(OSError):
            os.kill(watcher.pid, signal.SIGKILL)

    def _tell_members(self) -> None:
        known = self._tree.known
        news = [(pid, started) for pid, started in known.items() if self._watched.get(pid) != started]
        self._watched = known
        self._tell_watcher(''.join(f'{pid} {started}\n' for pid, started in news).encode())

    # The loop

    def run(self) -> int:
        """Runs until the agent has ended. Returns the exit code."""
        self._tree.begin(self._child)
        self._start_watcher()
        self._apply(False)
        self._monitor.launch()
        deadline = time.monotonic() + _REQUEST_TIMEOUT
        due = -math.inf
        while True:
            may_begin = self._monitor.link.polled.is_set() or time.monotonic() >= deadline
            self._reap()
            ended_by = self._forward()
            if ended_by is None and self._code is None and (self._woken_at is not None or time.monotonic() >= due):
                began = time.monotonic()
                self._apply(may_begin)
                took = time.monotonic() - began
                due = began + took + max(_HELD_SWEEP if self._is_held else _SWEEP, _SWEEP_SHARE * took)
            if ended_by is not None or self._code is not None or self._has_ended:
                return self._finish(ended_by)
            until = due if may_begin else min(due, deadline)
            self._wait(until - time.monotonic())

    def _wait(self, seconds: float) -> None:
        """Until a signal, the end of a process or a change of the state."""
        if self._woken_at is None and select.select([self._pipe[0]], [], [], max(0.0, seconds))[0]:
            with contextlib.suppress(OSError):
                os.read(self._pipe[0], 4096)

    def _apply(self, may_begin: bool) -> None:
        """Brings the tree into the state that the service asks for."""
        began, self._woken_at = self._woken_at or time.monotonic(), None
        control, suspended, reason = self._monitor.state()
        if suspended:
            self._hold(control, reason or '', began)
        elif self._is_held:
            self._tree.resume()
            self._terminal.give_back()
            self._is_held = False
        elif self._has_begun:
            self._processes = len(self._tree.sweep())
        elif may_begin:
            self._begin()
        if control.version != self.applied:
            self.applied = control.version
            self._monitor.link.confirm()
        self._tell_members()
        self._keep_watcher()

    def _begin(self) -> None:
        self._has_begun = True
        self._processes = 1
        if self._cgroup is not None and not self._cgroup.add(self._child):
            _log.warning('The cgroup cannot be used: the tree is held without it.')
        if self._terminal.exists:
            # The child does the same: the terminal needs the group now.
            with contextlib.suppress(OSError):
                os.setpgid(self._child, self._child)
            self._terminal.give(self._child)
        os.write(self._go, b'1')

    def _hold(self, control: _Control, reason: str, began: float) -> None:
        if not self._is_held:
            self._is_held, self._held_at = True, began
            self._terminal.take()
        end_after = self._options.end_after
        ends = self._options.on_suspend == 'end'
        if not self._has_begun:
            held = _Held(0, 0)
        elif ends:
            held = self._tree.end(_GRACE, self._reap)
        elif end_after is not None and time.monotonic() - self._held_at >= end_after:
            ends = True
            held = self._tree.end(0, self._reap)
        else:
            held = self._tree.hold(self._reap)
        self._has_ended = ends and self._has_begun
        self._processes = held.left if ends else held.processes
        version, before = self._evidence
        action = 'end' if ends else 'freeze'
        is_new = version != control.version
        # Another process may have continued some since, and a tree that is held may be ended later.
        if control.suspended and (before is None or is_new or held.left != before['left'] or action != before['action']):
            took = round(1000 * (time.monotonic() - began))
            self._evidence = (
                control.version,
                {'action': action, 'processes': held.processes, 'left': held.left, 'ms': took},
            )
            if not is_new:
                self._monitor.link.confirm()
        if held.left > self._left:
            _log.warning('%d of %d processes cannot be held.', held.left, held.processes)
        self._left = held.left

    def _forward(self) -> Optional[int]:
        """Passes signals on. Returns the signal that ends an agent which stands still or has not begun."""
        while self._signals:
            number = self._signals.popleft()
            if self._is_held or not self._has_begun:
                if number in _ENDING:
                    return number
            elif self._tree.root is not None:
                _signal_process(self._tree.root, number)
        return None

    def _reap(self) -> None:
        """Takes the exit codes of children, and of orphans that the system has given to this process."""
        targets = [-1] if self._is_reaper else [self._child, *([self._watcher.pid] if self._watcher else [])]
        for target in targets:
            while True:
                try:
                    pid, status = os.waitpid(target, os.WNOHANG | os.WUNTRACED)
                except ChildProcessError:
                    break
                if pid == 0:
                    break
                self._note_end(pid, status)

    def _note_end(self, pid: int, status: int) -> None:
        if os.WIFSTOPPED(status):
            # By Ctrl-Z: a shell would see the supervisor run, and nobody could continue the agent.
            if pid == self._child and not self._is_held and os.WSTOPSIG(status) == signal.SIGTSTP:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGCONT)
            return
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        if pid == self._child:
            self._code = code
        elif self._watcher is not None and pid == self._watcher.pid:
            self._watcher.returncode = code
            self._close_watcher()

    # The watcher

    def _keep_watcher(self) -> None:
        if self._watcher is None and time.monotonic() >= self._watcher_due and not self._has_ended:
            self._watcher_due = time.monotonic() + _WATCHER_PAUSE
            with contextlib.suppress(OSError):
                self._start_watcher()

    def _close_watcher(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None and watcher.stdin is not None:
            with contextlib.suppress(OSError):
                watcher.stdin.close()

    # End

    def _finish(self, ended_by: Optional[int]) -> int:
        # What the agent left would go on without a supervisor.
        self._tree.end(0 if self._is_held else _GRACE, self._reap)
        self._terminal.restore()
        deadline = time.monotonic() + _REQUEST_TIMEOUT
        link = self._monitor.link
        while self._has_ended and link.is_unconfirmed() and time.monotonic() < deadline:
            self._woken_at = None
            self._wait(deadline - time.monotonic())
        while self._code is None and time.monotonic() < deadline:
            self._reap()
            self._woken_at = None
            self._wait(0.01)
        self._monitor.stop()
        if self._watcher is not None:
            # Nothing is left that it had to end.
            self._watcher.kill()
            self._watcher.wait()
            self._close_watcher()
        if ended_by is not None:
            return 128 + ended_by
        fault = b''
        with contextlib.suppress(BlockingIOError):
            fault = os.read(self._fault, 1000)
        if fault:
            code, _, message = fault.decode().partition(' ')
            raise _CommandFault(f'{_one_line(self._options.command[0])} cannot be started: {message}.', int(code))
        return _FAILED if self._code is None else self._code


_WATCH = '_watch'
_ENDING = tuple(getattr(signal, name) for name in ('SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM') if hasattr(signal, name))
_FORWARDED = (
    *_ENDING,
    *(getattr(signal, name) for name in ('SIGUSR1', 'SIGUSR2', 'SIGWINCH') if hasattr(signal, name)),
)


def _prctl(option: int, value: int) -> bool:
    """Whether this system has it."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError, TypeError):
        return False


def _environment_settings(options: _RunOptions) -> Dict[str, Any]:
    """The settings of `Monitor`. Raises _CommandFault."""
    environment = os.environ
    key = environment.get('WARDLINE_KEY', '')
    key_file = environment.get('WARDLINE_KEY_FILE', '')
    if not key and key_file:
        try:
            with open(_open_regular(key_file, os.O_RDONLY), encoding='utf-8') as file:
                key = file.read(_STATE_FILE_BYTES).strip()
        except (OSError, ValueError) as error:
            raise _CommandFault(
                f'The key file {_one_line(key_file)} cannot be read ({_describe(error)}).', _CONFIGURATION
            ) from None
    url = environment.get('WARDLINE_URL', '')
    if not url or not key:
        missing = 'a key' if url else 'the address of the service'
        raise _CommandFault(f'The setting for {missing} is missing. Set WARDLINE_URL and WARDLINE_KEY.', _CONFIGURATION)
    program = os.path.basename(options.command[0])
    host = socket.gethostname()
    instance_id = options.instance or environment.get('WARDLINE_INSTANCE_ID') or _derived_instance_id(program, host)
    return {
        'url': url,
        'key': key,
        'instance_id': instance_id,
        'name': _one_line(f'{program} of {_user_name()} on {host}', 80) or 'agent',
        'fail_mode': environment.get('WARDLINE_FAIL_MODE') or 'open',
        'public_key': environment.get('WARDLINE_PUBLIC_KEY') or None,
        'state_file': environment.get('WARDLINE_STATE_FILE') or _default_state_file(instance_id),
    }


def _derived_instance_id(program: str, host: str) -> str:
    """`<program>-<host>-<user>`; what an id may not contain is represented by a hash."""
    wanted = f'{program}-{host}-{_user_name()}'.lower()
    instance_id = re.sub('[^a-z0-9_-]+', '-', wanted)
    if instance_id == wanted and len(wanted) <= 64:
        return instance_id
    return f'{instance_id[:56].rstrip("-")}-{hashlib.sha256(wanted.encode()).hexdigest()[:7]}'


def _user_name() -> str:
    # In a container the user may have no name.
    with contextlib.suppress(KeyError, AttributeError):
        return str(pwd.getpwuid(os.getuid()).pw_name)
    return os.environ.get('USER') or str(os.getuid())


def _default_state_file(instance_id: str) -> str:
    given = os.environ.get('XDG_STATE_HOME', '')
    # By the XDG Base Directory Specification, a relative folder counts as unset.
    base = given if os.path.isabs(given) else os.path.expanduser('~/.local/state')
    folder = os.path.join(base, 'wardline')
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    # An invalid id is refused later, and names no other folder.
    return os.path.join(folder, f'run-{re.sub("[^a-z0-9_-]", "-", instance_id)[:64]}.state')


_USAGE_LINE = (
    'wardline.py run [--instance <id>] [--on-suspend freeze|end] [--end-after <seconds>] [--on-crash end|leave] '
    '[--user <name>] -- <command> [arguments]'
)
_HELP = f"""wardline.py {__version__}: kill switch for any program

  {_USAGE_LINE}
      Starts the command and holds it, with all processes that it starts, while the agent is suspended.
      --instance    default: <command>-<host>-<user>
      --on-suspend  freeze: stop the processes until the resume (default); end: SIGTERM, and SIGKILL {_GRACE:g} seconds later
      --end-after   seconds: end the processes that have been frozen for so long; default: they stay frozen
      --on-crash    end or leave the processes when the supervisor itself is killed; default: end
      --user        start the command as this user; needs root

Settings, from the environment:
  WARDLINE_URL          address of the service
  WARDLINE_KEY          a key of scope agent, created with --supervisor
  WARDLINE_KEY_FILE     a file with the key
  WARDLINE_INSTANCE_ID  as --instance
  WARDLINE_PARENT       id of the agent that started this one, with which it is suspended
  WARDLINE_FAIL_MODE    open or closed; default: open
  WARDLINE_PUBLIC_KEY   keys that must sign the state of the kill switch
  WARDLINE_STATE_FILE   default: ~/.local/state/wardline/run-<instance>.state

The command receives neither WARDLINE_KEY nor WARDLINE_KEY_FILE.

Exit codes: that of the command, 128 and the signal that ended it, 126 or 127 when it cannot be started,
64 usage error, 78 invalid settings."""

# Seconds: 15 days, as in wardline-agent.
_MAX_END_AFTER = 1_296_000
_RUN_VALUES = {'--on-suspend': ('freeze', 'end'), '--on-crash': ('end', 'leave')}


def _wrong(sentence: str) -> _CommandFault:
    return _CommandFault(f'{sentence} Usage: {_USAGE_LINE}; see --help.', _USAGE)


def _run_options(words: Sequence[str]) -> _RunOptions:
    """Raises _CommandFault."""
    own = list(words[: words.index('--')] if '--' in words else words)
    command = words[len(own) + 1 :]
    given: Dict[str, Any] = {}
    while own:
        name, has_value, value = own.pop(0).partition('=')
        field = name[2:].replace('-', '_')
        if not name.startswith('--') or field not in _RunOptions._fields[1:]:
            raise _wrong(f'run has no option {_one_line(name)}; it takes a command after "--".')
        if not has_value:
            value = own.pop(0) if own else ''
        if not value or value.startswith('--'):
            raise _wrong(f'{name} takes a value.')
        if name in _RUN_VALUES and value not in _RUN_VALUES[name]:
            raise _wrong(f'{name} takes {" or ".join(_RUN_VALUES[name])}, not {_one_line(value)!r}.')
        if field in given:
            raise _wrong(f'{name} was given twice.')
        given[field] = value
    if not command:
        raise _wrong('run takes a command after "--".')
    if 'end_after' in given:
        if not re.fullmatch(r'\d{1,7}', given['end_after'], re.ASCII) or int(given['end_after']) > _MAX_END_AFTER:
            raise _wrong(f'--end-after takes seconds, at most {_MAX_END_AFTER}, not {_one_line(given["end_after"])!r}.')
        if given.get('on_suspend') == 'end':
            raise _wrong('--end-after is for --on-suspend freeze.')
        given['end_after'] = int(given['end_after'])
    return _RunOptions(command, **given)


def _account_of(user: Optional[str]) -> Optional[Any]:
    """Raises _CommandFault."""
    if user is None:
        return None
    if os.geteuid() != 0:
        raise _CommandFault('--user needs root: start the supervisor as root.', _FAILED)
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise _wrong(f'--user {_one_line(user)}: no such user. Create it, or name another one.') from None


def _run(words: Sequence[str]) -> int:
    options = _run_options(words)
    if not hasattr(os, 'fork'):
        raise _CommandFault('run needs a system with fork, such as Linux or macOS.', _FAILED)
    account = _account_of(options.user)
    settings = _environment_settings(options)
    try:
        supervisor = _Supervisor(options, settings, account)
    except ValueError as error:
        raise _CommandFault(f'Invalid settings: {error}.', _CONFIGURATION) from None
    return supervisor.run()


def _main(words: Sequence[str]) -> int:
    command = words[0] if words else None
    if command == _WATCH:
        _watch(sys.stdin.buffer)
        return 0
    logging.basicConfig(format='wardline.py: %(message)s')
    try:
        if command == 'run':
            return _run(words[1:])
        if command not in ('--help', 'help', '--version'):
            raise _wrong('A command is missing.' if command is None else f'Unknown command {_one_line(command)}.')
    except _CommandFault as fault:
        _log.error('%s', fault)
        return fault.exit_code
    print(__version__ if command == '--version' else _HELP)
    return 0


if __name__ == '__main__':
    sys.exit(_main(sys.argv[1:]))

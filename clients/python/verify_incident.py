#!/usr/bin/env python3
"""Verifies an incident bundle of Wardline offline, with the standard library of Python 3.9 or newer only.

    python3 verify_incident.py incident.tar.gz --keys wardline-keys.json

It follows the page "Incident bundle format" (docs/reference/incident-bundle.md) step by step, and nothing is extracted
to disk. Exit code 0: intact; 1: refused; 2: --keys is not a list of keys; 4: no service at --keys; 64: wrong usage.
"""

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
import unicodedata
import urllib.request
import zlib
from datetime import datetime, timedelta, timezone
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Sequence, Tuple

KINDS = (
    'agent',
    'heartbeats',
    'decoy_hits',
    'control_changes',
    'suspensions',
    'rule_firings',
    'rule_versions',
    'audit',
    'keys',
    'events',
)
MANIFEST, SIGNATURE = 'manifest.json', 'signature.json'
MANIFEST_KIND, AUDIT_KIND = b'wardline-incident-v1\n', b'wardline-audit-v1\n'
SIGNATURE_FIELDS = ['format', 'algorithm', 'kid', 'public_key', 'signed_at', 'manifest_bytes', 'signature']
HASHED_FIELDS = (
    'seq',
    'at',
    'actor',
    'scope',
    'ip',
    'action',
    'target',
    'before',
    'after',
    'reason',
    'request_id',
)
GENESIS = '0' * 64
TAR_BLOCK, BLOCK, SIGNATURE_BYTES, STORED_BLOCK = 512, 65_536, 512, 65_535
MAX_SAFE_INTEGER = 2**53 - 1
# Limits of the format, which bound the memory of a verification.
MAX_MANIFEST, MAX_FILE = 16 * 1024 * 1024, 8 * 1024 * 1024
KEYS_PATH = '/.well-known/wardline-keys.json'


class Altered(Exception):
    """The first fault of a bundle: the file, if known its block and an offset in the archive, and a sentence."""

    def __init__(self, entry: str, detail: str, block: Optional[int] = None, offset: Optional[int] = None) -> None:
        super().__init__(detail)
        places = {'block': block, 'offset': offset}
        found = {name: value for name, value in places.items() if value is not None}
        self.verdict = {'ok': False, 'entry': entry, 'detail': detail, **found}


# --- Ed25519 (RFC 8032), verification only. Nothing here is secret, so no step needs to take constant time. ----------

FIELD = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, FIELD) % FIELD
ROOT_OF_MINUS_ONE = pow(2, (FIELD - 1) // 4, FIELD)

# Extended homogeneous coordinates (section 5.1.4): x = X/Z, y = Y/Z, x*y = T/Z.
Point = Tuple[int, int, int, int]


def add(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0])
    b = (p[1] + p[0]) * (q[1] + q[0])
    c = 2 * p[3] * q[3] * CURVE
    d = 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def decode_point(encoded: bytes) -> Optional[Point]:
    """Section 5.1.3. None for bytes that encode no point, or not in the only allowed form."""
    sign, y = divmod(int.from_bytes(encoded, 'little'), 2**255)
    if len(encoded) != 32 or y >= FIELD:
        return None
    square = (y * y - 1) * pow(CURVE * y * y + 1, -1, FIELD) % FIELD
    x = pow(square, (FIELD + 3) // 8, FIELD)
    if x * x % FIELD != square:
        x = x * ROOT_OF_MINUS_ONE % FIELD
    if x * x % FIELD != square or (x == 0 and sign):
        return None
    x = x if x % 2 == sign else FIELD - x
    return x, y, 1, x * y % FIELD


def encode_point(point: Point) -> bytes:
    inverse = pow(point[2], -1, FIELD)
    x, y = point[0] * inverse % FIELD, point[1] * inverse % FIELD
    return (y | (x & 1) << 255).to_bytes(32, 'little')


BASE = decode_point(bytes([0x58]) + bytes([0x66]) * 31)


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Section 5.1.7, without the cofactor: [S]B - [k]A must encode to R."""
    key = decode_point(public_key)
    s = int.from_bytes(signature[32:], 'little')
    if BASE is None or key is None or len(signature) != 64 or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public_key + message).digest(), 'little') % ORDER
    negative = (FIELD - key[0], key[1], 1, FIELD - key[3])
    sums = (None, BASE, negative, add(BASE, negative))
    point: Point = (0, 1, 1, 0)
    for bit in range(ORDER.bit_length() - 1, -1, -1):
        point = add(point, point)
        term = sums[(s >> bit & 1) + 2 * (k >> bit & 1)]
        if term is not None:
            point = add(point, term)
    return encode_point(point) == signature[:32]


# --- JSON ------------------------------------------------------------------------------------------------------------


def no_number(text: str) -> Any:
    raise ValueError(f'{text} is not JSON')


def parse(data: bytes) -> Any:
    """The value of JSON in UTF-8; None for anything else, which no place of a bundle allows."""
    try:
        return json.loads(
            data.decode('utf-8'),
            parse_constant=no_number,
            # Numbers are IEEE 754 doubles, as in RFC 8785.
            parse_int=lambda digits: int(digits) if len(digits) <= 15 else float(digits),
        )
    except (ValueError, RecursionError):
        return None


def integer(value: Any) -> Optional[int]:
    """A whole number from 0 to 2^53 - 1, however it is written; else None."""
    if type(value) not in (int, float) or value != value or not 0 <= value <= MAX_SAFE_INTEGER:
        return None
    return int(value) if value == int(value) else None


def canonical_number(value: float) -> str:
    """The shortest digits that identify the double, in the layout of ECMAScript."""
    if value != value or value in (float('inf'), float('-inf')):
        raise ValueError('not a number of JSON')
    if value == 0:
        return '0'
    mantissa, _, exponent = repr(abs(float(value))).partition('e')
    whole, _, fraction = mantissa.partition('.')
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).lstrip('0')
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip('0')
    sign = '-' if value < 0 else ''
    if len(digits) <= point <= 21:
        return sign + digits + '0' * (point - len(digits))
    if 0 < point <= 21:
        return f'{sign}{digits[:point]}.{digits[point:]}'
    if -6 < point <= 0:
        return f'{sign}0.{"0" * -point}{digits}'
    tail = f'.{digits[1:]}' if len(digits) > 1 else ''
    return f'{sign}{digits[0]}{tail}e{point - 1:+d}'


def canonical(value: Any) -> str:
    """Canonical JSON (RFC 8785)."""
    if isinstance(value, dict):
        # The order of UTF-16 code units, in which U+1F600 comes before U+FB33.
        names = sorted(value, key=lambda name: name.encode('utf-16-be', 'surrogatepass'))
        return '{' + ','.join(f'{canonical(name)}:{canonical(value[name])}' for name in names) + '}'
    if isinstance(value, list):
        return '[' + ','.join(map(canonical, value)) + ']'
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    return canonical_number(value)


TIME = re.compile('[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}[.][0-9]{3}Z')
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def milliseconds(text: Any) -> Optional[int]:
    """Epoch milliseconds of a time in the one form of the format; else None."""
    if not isinstance(text, str) or not TIME.fullmatch(text):
        return None
    try:
        at = datetime.strptime(text, '%Y-%m-%dT%H:%M:%S.%fZ').replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return (at - EPOCH) // timedelta(milliseconds=1) if at >= EPOCH else None


def base64url(text: Any, size: int) -> Optional[bytes]:
    """So many bytes from base64url without padding and with zeros as the unused bits; else None."""
    try:
        data = base64.b64decode(text + '=' * (-len(text) % 4), altchars=b'-_', validate=True)
    except (TypeError, ValueError):
        return None
    again = base64.urlsafe_b64encode(data).rstrip(b'=').decode()
    return data if len(data) == size and again == text else None


def is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch('[0-9a-f]{64}', value) is not None


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- The archive -----------------------------------------------------------------------------------------------------


def padded(size: int) -> int:
    return -(-size // TAR_BLOCK) * TAR_BLOCK


def tar_file(name: str, content: bytes, at: int) -> bytes:
    """Header, content and padding of a file, modified at `at` (epoch milliseconds)."""
    fields = [
        name.encode().ljust(100, b'\0'),
        b'0000644\0' + b'0000000\0' * 2,
        b'%011o\0%011o\0' % (len(content), at // 1000),
        b' ' * 8 + b'0'.ljust(101, b'\0'),
        b'ustar\x0000',
    ]
    header = b''.join(fields).ljust(TAR_BLOCK, b'\0')
    header = header[:148] + b'%06o\0 ' % sum(header) + header[156:]
    return header + content.ljust(padded(len(content)), b'\0')


def stored_member(data: bytes) -> bytes:
    """A gzip member without compression."""
    parts = [b'\x1f\x8b\x08\0\0\0\0\0\0\xff']
    for start in range(0, len(data), STORED_BLOCK):
        piece = data[start : start + STORED_BLOCK]
        is_last = start + STORED_BLOCK >= len(data)
        parts += [struct.pack('<BHH', is_last, len(piece), len(piece) ^ 0xFFFF), piece]
    return b''.join(parts) + struct.pack('<II', zlib.crc32(data), len(data))


def stored_size(size: int) -> int:
    return 18 + size + 5 * -(-size // STORED_BLOCK)


SIGNATURE_MEMBER = stored_size(TAR_BLOCK + SIGNATURE_BYTES + 2 * TAR_BLOCK)


def unpack(member: bytes, size: int) -> Optional[bytes]:
    """The content of one gzip member without optional fields; None unless it ends with it and has `size` bytes."""
    if len(member) < 18 or member[:4] != b'\x1f\x8b\x08\0':
        return None
    inflate = zlib.decompressobj(-15)
    try:
        data = inflate.decompress(member[10:], size + 1)
    except zlib.error:
        return None
    is_whole = inflate.eof and len(data) == size
    return data if is_whole and inflate.unused_data == struct.pack('<II', zlib.crc32(data), size) else None


def read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def read_signature(file: BinaryIO, size: int) -> Dict[str, Any]:
    """Step 1: the last bytes of the archive."""
    offset = size - SIGNATURE_MEMBER
    altered = Altered(
        SIGNATURE,
        f'The archive does not end with the original {SIGNATURE}: it was truncated, data was appended, or '
        f'{SIGNATURE} was altered.',
        offset=max(0, offset),
    )
    if offset < 0:
        raise altered
    member = read(file, offset, SIGNATURE_MEMBER)
    data = unpack(member, SIGNATURE_MEMBER - 18 - 5)
    found = parse(data[TAR_BLOCK : 2 * TAR_BLOCK]) if data else None
    if not isinstance(found, dict):
        raise altered
    version = integer(found.get('format'))
    if version is not None and version > 1:
        detail = f'The bundle has format {version}; this version verifies format 1. Use a newer version.'
        raise Altered(SIGNATURE, detail, offset=offset)
    at, manifest_bytes = milliseconds(found.get('signed_at')), integer(found.get('manifest_bytes'))
    is_valid = (
        list(found) == SIGNATURE_FIELDS
        and version == 1
        and found['algorithm'] == 'Ed25519'
        and isinstance(found['kid'], str)
        and re.fullmatch('[0-9a-f]{16}', found['kid'])
        and base64url(found['public_key'], 32)
        and base64url(found['signature'], 64)
        and at is not None
        and manifest_bytes is not None
        and 0 < manifest_bytes <= MAX_MANIFEST
    )
    if not is_valid or at is None:
        raise altered
    signature = {**found, 'format': 1, 'manifest_bytes': manifest_bytes}
    text = json.dumps(signature, separators=(',', ':')).ljust(SIGNATURE_BYTES - 1) + '\n'
    content = tar_file(SIGNATURE, text.encode(), at) + bytes(2 * TAR_BLOCK)
    if stored_member(content) != member:
        raise altered
    return signature


def is_place(value: Any) -> bool:
    return isinstance(value, dict) and integer(value.get('seq')) is not None and is_hash(value.get('hash'))


def is_entry(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get('packed'), dict):
        return False
    packed = value['packed']
    numbers = (value.get('size'), value.get('rows'), packed.get('offset'), packed.get('size'))
    return (
        isinstance(value.get('name'), str)
        and len(value['name']) <= 100
        and is_hash(value.get('sha256'))
        and all(integer(number) is not None for number in numbers)
        and isinstance(packed.get('blocks'), list)
        and all(map(is_hash, packed['blocks']))
    )


def manifest_fault(value: Any) -> Optional[str]:
    """What is wrong with the fields of the manifest; None if nothing is. Other fields are ignored."""
    if not isinstance(value, dict):
        return 'it must be a JSON object.'
    texts = [value.get(name) for name in ('id', 'deployment', 'version')]
    by, audit, entries = value.get('exported_by'), value.get('audit'), value.get('entries')
    checks = {
        'format must be 1': integer(value.get('format')) == 1,
        'id, deployment and version must be texts of at most 100 characters': all(
            isinstance(text, str) and len(text) <= 100 for text in texts
        ),
        'instance_id may contain only lower-case letters, digits, _ and -': isinstance(value.get('instance_id'), str)
        and re.fullmatch('[a-z0-9_-]{1,64}', value['instance_id']) is not None,
        'from, to and exported_at must be times in UTC with milliseconds': all(
            milliseconds(value.get(name)) is not None for name in ('from', 'to', 'exported_at')
        ),
        'exported_by must have the texts key_id, name and scope': isinstance(by, dict)
        and all(isinstance(by.get(name), str) for name in ('key_id', 'name', 'scope')),
        'audit must have after, last and head': isinstance(audit, dict)
        and all(is_place(audit.get(name)) for name in ('after', 'last', 'head')),
        f'block_bytes must be {BLOCK}': integer(value.get('block_bytes')) == BLOCK,
        'entries must describe files': isinstance(entries, list) and all(map(is_entry, entries)),
    }
    return next((f'{rule}.' for rule, is_kept in checks.items() if not is_kept), None)


def read_manifest(file: BinaryIO, end: int, signature: Dict[str, Any]) -> Tuple[Dict[str, Any], int]:
    """Step 2: the bytes before the signature. Returns the manifest and where its member begins."""
    size = signature['manifest_bytes']
    begin = end - stored_size(TAR_BLOCK + padded(size))

    def altered(detail: str) -> Altered:
        return Altered(MANIFEST, detail, offset=max(0, begin))

    if begin < 0:
        raise altered(f'{MANIFEST} is missing or was cut off.')
    member = read(file, begin, end - begin)
    data = unpack(member, TAR_BLOCK + padded(size))
    text = data[TAR_BLOCK : TAR_BLOCK + size] if data else b''
    if stored_member(tar_file(MANIFEST, text, milliseconds(signature['signed_at']) or 0)) != member:
        raise altered(f'{MANIFEST} was altered.')
    key, signed = base64url(signature['public_key'], 32), base64url(signature['signature'], 64)
    if key is None or signed is None or not is_signed(key, MANIFEST_KIND + text, signed):
        raise altered(f'The signature does not match {MANIFEST}: one of them was altered.')
    manifest = parse(text)
    fault = manifest_fault(manifest)
    if fault is not None:
        raise altered(f'{MANIFEST} is signed, but not in the format of this version: {fault}')
    if manifest['exported_at'] != signature['signed_at']:
        raise altered(f'{MANIFEST} and {SIGNATURE} name different times.')
    after = manifest['audit']['after']
    if after['seq'] == 0 and after['hash'] != GENESIS:
        raise altered(f'{MANIFEST} starts the audit log with a hash other than 64 zeros.')
    return manifest, begin


def judge_key(signature: Dict[str, Any], keys: Optional[Sequence[Dict[str, Any]]]) -> bool:
    """Step 3. True if the key is among the given ones, False if none are given."""
    kid, public_key, signed_at = signature['kid'], signature['public_key'], signature['signed_at']
    if sha256(base64url(public_key, 32) or b'')[:16] != kid:
        raise Altered(SIGNATURE, f'{SIGNATURE} names the key {kid} but contains another key.')
    if keys is None:
        return False
    known = next((key for key in keys if key['kid'] == kid and key['public_key'] == public_key), None)
    if known is None:
        raise Altered(SIGNATURE, f'The archive is signed by key {kid}, which is not among the given keys.')
    at, begin, end = (milliseconds(text) for text in (signed_at, known['valid_from'], known['valid_until']))
    if at is None or begin is None or at < begin or (end is not None and at > end):
        raise Altered(SIGNATURE, f'The archive is signed at {signed_at}, when key {kid} was not valid.')
    return True


def check_entries(entries: Sequence[Dict[str, Any]], end: int) -> None:
    """Step 4: exactly the files of an export, in its order, without gaps between them."""
    offset, kind, number = 0, -1, 0
    for entry in entries:
        name, packed = entry['name'], entry['packed']
        if kind >= 0 and name == f'{KINDS[kind]}/{number + 1:06}.ndjson':
            number += 1
        else:
            kind, number = kind + 1, 1
            if kind >= len(KINDS) or name != f'{KINDS[kind]}/000001.ndjson':
                raise Altered(MANIFEST, f'{MANIFEST} lists files that no export writes in this order.')
        if (
            packed['offset'] != offset
            or not 0 < packed['size'] <= 2 * MAX_FILE
            or entry['size'] > MAX_FILE
            or len(packed['blocks']) != -(-packed['size'] // BLOCK)
        ):
            raise Altered(name, f'{MANIFEST} has an impossible size or offset for {name}.')
        offset += int(packed['size'])
    if kind != len(KINDS) - 1:
        raise Altered(MANIFEST, f'{MANIFEST} lists too few files.')
    if offset < end:
        raise Altered(MANIFEST, f'Data was added between the last file and {MANIFEST}.')
    if offset > end:
        raise Altered(entries[-1]['name'], f'The archive is shorter than {MANIFEST} says: it was cut off.')


def read_entry(file: BinaryIO, entry: Dict[str, Any], at: int) -> List[bytes]:
    """Step 5: the rows of one file."""
    name, size = entry['name'], int(entry['size'])
    begin, packed = int(entry['packed']['offset']), int(entry['packed']['size'])
    member = read(file, begin, packed)
    for block, expected in enumerate(entry['packed']['blocks']):
        start = block * BLOCK
        if sha256(member[start : start + BLOCK]) != expected:
            offset, last = begin + start, begin + min(start + BLOCK, packed) - 1
            detail = f'{name} was altered in block {block} (bytes {offset} to {last} of the archive).'
            raise Altered(name, detail, block, offset)
    data = unpack(member, TAR_BLOCK + padded(size))
    content = data[TAR_BLOCK : TAR_BLOCK + size] if data else b''
    if data is None or tar_file(name, content, at) != data or sha256(content) != entry['sha256']:
        raise Altered(name, f'{name} differs from its description in {MANIFEST}.')
    try:
        content.decode('utf-8')
    except UnicodeDecodeError:
        raise Altered(name, f'{name} does not consist of lines in UTF-8.') from None
    lines = content.split(b'\n')
    if lines.pop() != b'':
        raise Altered(name, f'{name} does not consist of lines in UTF-8.')
    if len(lines) != entry['rows']:
        raise Altered(name, f'{name} has {len(lines)} rows instead of {int(entry["rows"])}.')
    return lines


# --- The audit log ---------------------------------------------------------------------------------------------------


def is_audit_row(row: Any) -> bool:
    if not isinstance(row, dict) or integer(row.get('seq')) is None:
        return False
    if 'withheld' in row:
        return set(row) == {'seq', 'prev_hash', 'hash', 'withheld'} and row['withheld'] is True and is_hash(row['hash'])
    texts = all(isinstance(row.get(name), str) for name in ('actor', 'action', 'prev_hash', 'hash'))
    nullable = ('scope', 'ip', 'target', 'reason', 'request_id', 'actor_name')
    return (
        texts
        and row['seq'] >= 1
        and all(name in row and isinstance(row[name], (str, type(None))) for name in nullable)
        and 'before' in row
        and 'after' in row
        and milliseconds(row.get('at')) is not None
    )


def chain_fault(row: Dict[str, Any], seq: int, previous: str) -> Optional[str]:
    """Why a row does not follow entry `seq - 1` with the hash `previous`; None if it does."""
    if row['seq'] < seq:
        return f'Entry {int(row["seq"]):,} is outside the chain, in the place of entry {seq:,}: it was added.'
    if row['seq'] != seq:
        return f'Entry {seq:,} is missing: entry {int(row["seq"]):,} stands in its place.'
    if row['prev_hash'] != previous:
        return f'Entry {seq:,} does not follow from entry {seq - 1:,}: one of them was changed.'
    if 'withheld' in row:
        return None
    hashed = {name: row[name] for name in HASHED_FIELDS}
    hashed.update(at=milliseconds(row['at']), scope=row['scope'] or '', prev_hash=previous)
    try:
        found = sha256(AUDIT_KIND + canonical(hashed).encode('utf-8'))
    except (ValueError, RecursionError):
        found = ''
    return None if found == row['hash'] else f'Entry {seq:,} does not match its hash: it was changed.'


def check_audit(parts: Iterator[Tuple[str, List[bytes]]], after: Dict[str, Any], last: Dict[str, Any]) -> None:
    """Step 6: every row follows from the one before, from `after` to `last`."""
    seq, previous, name = int(after['seq']), after['hash'], ''
    for name, lines in parts:
        for line in lines:
            row = parse(line)
            if not is_audit_row(row):
                raise Altered(name, f'{name} has a row that is not an audit entry.')
            fault = chain_fault(row, seq + 1, previous)
            if fault is not None:
                raise Altered(name, f'The audit log was altered before it was exported. {fault}')
            seq, previous = seq + 1, row['hash']
    if seq != last['seq'] or previous != last['hash']:
        raise Altered(name, f'The audit log ends at entry {seq} instead of {int(last["seq"])}.')


# --- All of it -------------------------------------------------------------------------------------------------------


def verify_open(file: BinaryIO, keys: Optional[Sequence[Dict[str, Any]]]) -> Dict[str, Any]:
    size = file.seek(0, 2)
    signature = read_signature(file, size)
    manifest, begin = read_manifest(file, size - SIGNATURE_MEMBER, signature)
    is_known = judge_key(signature, keys)
    entries = manifest['entries']
    check_entries(entries, begin)
    at = milliseconds(signature['signed_at']) or 0
    rows = dict.fromkeys(KINDS, 0)

    def lines_of(kind: str) -> Iterator[Tuple[str, List[bytes]]]:
        for entry in entries:
            if entry['name'].startswith(f'{kind}/'):
                lines = read_entry(file, entry, at)
                rows[kind] += len(lines)
                yield entry['name'], lines

    for kind in KINDS:
        if kind == 'audit':
            check_audit(lines_of(kind), manifest['audit']['after'], manifest['audit']['last'])
        else:
            for _ in lines_of(kind):
                pass
    header = {name: value for name, value in manifest.items() if name != 'entries'}
    return {'ok': True, 'key_is_known': is_known, 'kid': signature['kid'], 'rows': rows, **header}


def verify_bundle(path: str, keys: Optional[Sequence[Dict[str, Any]]] = None) -> Dict[str, Any]:
    """Verifies a bundle with the trusted keys; without any, with the key in the bundle.

    Returns {'ok': True, 'key_is_known', 'kid', 'rows', ...} with the fields of the manifest, or {'ok': False, 'entry',
    'detail'} with 'block' and 'offset' where they are known. Raises OSError if the file cannot be read.
    """
    with open(path, 'rb') as file:
        try:
            return verify_open(file, keys)
        except Altered as fault:
            return fault.verdict


class KeysFault(Exception):
    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def is_key(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), str) for name in ('kid', 'public_key'))
        and value.get('algorithm') == 'Ed25519'
        and milliseconds(value.get('valid_from')) is not None
        and 'valid_until' in value
        and (value['valid_until'] is None or milliseconds(value['valid_until']) is not None)
    )


def read_keys(source: str) -> List[Dict[str, Any]]:
    """Reads the list of keys from a file, or from the service at an address. Raises KeysFault or OSError."""
    if re.match('https?://', source):
        address = source.rstrip('/') + KEYS_PATH
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                data = answer.read(1024 * 1024)
        except (OSError, ValueError) as fault:
            raise KeysFault(f'{address} does not answer with a list of keys: {fault}', 4) from fault
    else:
        with open(source, 'rb') as file:
            data = file.read()
    found = parse(data)
    keys = found.get('evidence_keys') if isinstance(found, dict) else None
    if not isinstance(keys, list) or not all(map(is_key, keys)):
        raise KeysFault(f'{source} is not a list of keys in the format of {KEYS_PATH}.', 2)
    return keys


def plain(text: str) -> str:
    """Text of the bundle without characters that a terminal obeys or hides."""
    return re.sub(' +', ' ', ''.join(' ' if unicodedata.category(c)[0] in 'C' or c in '\u2028\u2029' else c for c in text))


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        self.exit(64, f'{message}\n')


def main() -> int:
    parser = Parser(description='Verify an incident bundle offline.')
    parser.add_argument('bundle', help='the file that `wardline incident export` wrote')
    parser.add_argument('--keys', help=f'keys to trust: a copy of {KEYS_PATH}, or the address of the service')
    parser.add_argument('--json', action='store_true', help='print JSON')
    options = parser.parse_args()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors='backslashreplace')  # type: ignore[union-attr]
    try:
        verdict = verify_bundle(options.bundle, None if options.keys is None else read_keys(options.keys))
    except (OSError, KeysFault) as fault:
        print(plain(str(fault)), file=sys.stderr)
        return fault.exit_code if isinstance(fault, KeysFault) else 1
    if options.json:
        print(json.dumps(verdict, separators=(',', ':')))
        return 0 if verdict['ok'] else 1
    if not verdict['ok']:
        print(plain(f'Refused at {verdict["entry"]}: {verdict["detail"]}'), file=sys.stderr)
        return 1
    by, kid, audit = verdict['exported_by'], verdict['kid'], verdict['audit']
    print(f'The bundle is intact: instance {verdict["instance_id"]}, {verdict["from"]} to {verdict["to"]}.')
    exporter = f'{by["name"]} ({by["key_id"]}) of deployment {verdict["deployment"]}'
    print(plain(f'Exported at {verdict["exported_at"]} by {exporter}.'))
    print(', '.join(f'{kind} {count}' for kind, count in verdict['rows'].items()))
    count = int(audit['last']['seq'] - audit['after']['seq'])
    print(f'The chain of {"1 audit entry" if count == 1 else f"{count} audit entries"} is intact.')
    if verdict['key_is_known']:
        print(f'Signed by key {kid}, which is among the given keys.')
    else:
        print(
            f'Signed by key {kid}, which the bundle itself contains: nothing was altered since it was signed, but '
            "anyone could have signed it. Compare the key with the deployment's: --keys <url or file>."
        )
    return 0


if __name__ == '__main__':
    sys.exit(main())

import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { canonicalJson, chainRowOf, chainText, incidentKinds, incidentLimits } from '@wardline/contract'
import {
  blockBytes,
  manifestKind,
  sha256,
  signatureMemberSize,
} from '../packages/server/src/features/incidents/archive.ts'
import { partsOf, storedHead } from './incident-forgery.ts'

const vectorFile = (name: string) => readFileSync(new URL(`reference/incident-bundle/${name}`, import.meta.url))

/** Hexadecimal bytes, 16 a line, with their offset and their text. */
function hex(bytes: Buffer, start = 0): string {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 16) {
    const line = bytes.subarray(at, at + 16)
    const digits = line.toString('hex').replace(/..(?=.)/g, '$& ')
    const text = line.toString('latin1').replace(/[^ -~]/g, '.')
    lines.push(`${(start + at).toString(16).padStart(4, '0')}  ${digits.padEnd(47)}  ${text}`)
  }
  return lines.join('\n')
}

const block = (text: string, language = '') => `\`\`\`${language}\n${text}\n\`\`\``

const written: Record<string, string> = {
  '1e21': '1e21',
  '1e20': '100000000000000000000',
  '0.000001': '0.000001',
  '0.0000001': '0.0000001',
  '4.50': '4.50',
  '1E+2': '1E+2',
  '-0': '-0',
  escapes: '"\\u00f6\\/\\u001F\\u2028"',
  order: '{"\\ufb33":1,"\\ud83d\\ude00":2,"b":3,"a":4}',
}

/** Returns the page about the format of bundles. Its examples are read from the test vectors. */
export function incidentFormat(generated: string): string {
  const bundle = vectorFile('valid.tar.gz')
  const { manifest, signature, members, manifestAt, signatureAt, manifestBytes } = partsOf(bundle)
  const place = manifest.entries.findIndex(({ name }) => name.startsWith('audit/'))
  const audit = manifest.entries[place]!
  const lines = gunzipSync(members[place]!)
    .toString('utf8', 512, 512 + audit.size)
    .trimEnd()
    .split('\n')
  const line = lines.find((row) => !row.includes('"withheld"'))!
  const row = JSON.parse(line)
  const text = chainText(chainRowOf(row), row.prev_hash)
  const key = Buffer.from(signature.public_key, 'base64url')
  const vectors = JSON.parse(vectorFile('vectors.json').toString('utf8')) as {
    file: string
    keys: string | null
    is: string
    expected: { ok: boolean; entry?: string; block?: number; offset?: number }
  }[]
  const vectorRows = vectors.map(({ file, keys, is, expected: { ok, entry, block, offset } }) => {
    const at = [block === undefined ? '' : `, block ${block}`, offset === undefined ? '' : `, offset ${offset}`].join(
      '',
    )
    return `| \`${file}\` | ${keys ?? 'none'} | ${is} | ${ok ? 'intact' : `${entry}${at}`} |`
  })
  const { entries: _, ...header } = manifest
  return `# Incident bundle format

${generated}

Format 1 of [incident bundles](../guide/incidents.md), in enough detail to write a verifier. Two exist: \`wardline incident verify\`, and [\`verify_incident.py\`](../../clients/python/verify_incident.py), one file for Python 3.9 or newer without dependencies. All examples are parts of [test vectors](#test-vectors) that the service made.

Sizes are in bytes, integers are little-endian, SHA-256 is written as 64 lower-case hexadecimal digits. A *time* has exactly the form \`${signature.signed_at}\`: UTC, three digits of milliseconds, not before 1970. A *whole number* is from 0 to 2^53 − 1. *base64url* is RFC 4648, section 5, without padding and with zeros as the unused bits: 32 bytes are 43 characters, 64 bytes are 86.

## Archive

A bundle is a sequence of gzip members (RFC 1952) without bytes before, between or behind them, so that every byte belongs to one file:

| Part | Member |
|---|---|
| the files, in the order of the manifest | each one compressed member |
| \`manifest.json\` | stored, begins where the last file ends |
| \`signature.json\` | stored, the last ${signatureMemberSize} bytes of the archive |

Every member contains one file as tar stores it: header, content, zeros up to a multiple of 512. The member of \`signature.json\` also has the 1,024 zeros that end a tar archive, so \`tar xzf\` opens the whole.

### Tar header

512 bytes (POSIX.1-1988, ustar). All bytes that are not listed are zero. The time is \`signed_at\` in whole seconds, rounded down.

| Offset | Size | Content |
|---|---|---|
| 0 | 100 | name in ASCII, padded with zero bytes |
| 100 | 8 | \`0000644\`, zero byte |
| 108 | 8 | \`0000000\`, zero byte |
| 116 | 8 | \`0000000\`, zero byte |
| 124 | 12 | size of the content: 11 octal digits, zero byte |
| 136 | 12 | seconds since 1970: 11 octal digits, zero byte |
| 148 | 8 | sum of all bytes of the header with 8 spaces here: 6 octal digits, zero byte, space |
| 156 | 1 | \`0\` |
| 257 | 8 | \`ustar\`, zero byte, \`00\` |

The header of \`signature.json\`:

${block(hex(bundle.subarray(signatureAt + storedHead - 512, signatureAt + storedHead - 512 + 272)))}

### Compressed members

The gzip header has 10 bytes that begin with \`1f 8b 08 00\`: no optional fields. The next 6 bytes (time, flags, system) may have any value. The deflate data ends 8 bytes before the end of the member; then follow CRC-32 and size of the uncompressed bytes. A second gzip member, or other bytes behind the first, are refused: programs disagree on them.

### Stored members

A verifier rebuilds these bytes and compares all of them.

1. \`1f 8b 08 00 00 00 00 00 00 ff\`.
2. The data in pieces of 65,535 bytes, the last one with the rest. Before each piece are 5 bytes: \`01\` for the last piece and \`00\` for others, the length of the piece (2), the length with all bits inverted (2).
3. CRC-32 of the data (4), size of the data (4).

Data of *n* bytes need 18 + *n* + 5 · ⌈*n* / 65,535⌉ bytes. The first bytes of the member of \`manifest.json\`, at offset ${manifestAt}; its data are 512 bytes of header and ${manifestBytes.length} of content, padded to a multiple of 512:

${block(hex(bundle.subarray(manifestAt, manifestAt + 48), manifestAt))}

## signature.json

512 bytes: one JSON object without white space and with exactly these fields in this order, spaces up to 511 bytes, a line feed.

${block(JSON.stringify(signature), 'json')}

| Field | |
|---|---|
| \`format\` | 1 |
| \`algorithm\` | \`Ed25519\` |
| \`kid\` | 16 lower-case hexadecimal digits: the first ones of the SHA-256 of the 32 bytes of the public key |
| \`public_key\` | the public key, 32 bytes in base64url |
| \`signed_at\` | time |
| \`manifest_bytes\` | size of \`manifest.json\`: 1 to 16,777,216 |
| \`signature\` | 64 bytes in base64url |

The signature is pure Ed25519 (RFC 8032, not Ed25519ph or Ed25519ctx) of these bytes: \`${manifestKind}\`, a line feed (\`0a\`), the ${manifestBytes.length} bytes of \`manifest.json\` without tar header and padding. The check is [S]B = R + [k]A with S less than the order of the group, without cofactor.

| | |
|---|---|
| public key | \`${key.toString('hex')}\` |
| its SHA-256 | \`${sha256(key)}\` |
| \`kid\` | \`${signature.kid}\` |
| signed bytes, SHA-256 | \`${sha256(Buffer.concat([Buffer.from(`${manifestKind}\n`), manifestBytes]))}\` |
| signature | \`${Buffer.from(signature.signature, 'base64url').toString('hex')}\` |

The first signed bytes:

${block(hex(Buffer.concat([Buffer.from(`${manifestKind}\n`), manifestBytes]).subarray(0, 48)))}

## manifest.json

One JSON object in UTF-8. The signature covers its bytes, so no canonical form is needed. Unknown fields are ignored. Without \`entries\`:

${block(JSON.stringify(header, null, 2), 'json')}

| Field | |
|---|---|
| \`format\` | 1 |
| \`id\`, \`deployment\`, \`version\` | id of the export, of the deployment, version of Wardline: text of at most 100 characters |
| \`instance_id\` | the agent: 1 to 64 lower-case letters, digits, \`_\` and \`-\` |
| \`from\`, \`to\` | times: rows at or after \`from\` and before \`to\` |
| \`exported_at\` | time, the same as \`signed_at\` |
| \`exported_by\` | \`key_id\`, \`name\`, \`scope\`: texts |
| \`audit\` | \`after\`, \`last\` and \`head\`, each with \`seq\` (whole number) and \`hash\` (SHA-256), see [chain](#audit-log) |
| \`block_bytes\` | ${blockBytes} |
| \`entries\` | the files in the order of the archive |

An entry:

${block(JSON.stringify(audit, null, 2), 'json')}

| Field | |
|---|---|
| \`name\` | kind, \`/\`, number from 1 with at least 6 digits, \`.ndjson\` |
| \`size\`, \`sha256\` | of the content, without tar header and padding; at most 8 MiB |
| \`rows\` | number of its lines |
| \`packed.offset\`, \`packed.size\` | place of the gzip member in the archive, with its header and trailer; the size is at least 1 and at most 16 MiB |
| \`packed.blocks\` | SHA-256 of each ${blockBytes.toLocaleString('en')} bytes of that member as they are in the archive, the last one of the rest: ⌈\`size\` / ${blockBytes.toLocaleString('en')}⌉ hashes |

Every kind has at least one file, which may be empty, in this order: ${incidentKinds.map((kind) => `\`${kind}\``).join(', ')}. Further files of a kind follow it with the next number. The first member has offset 0, each further one begins where the one before ends, and the last one ends where the member of \`manifest.json\` begins.

## Rows

A file is UTF-8: lines that each end with a line feed. Each line is a JSON object. A verifier parses those of \`audit\` only; the signature covers the others.

| Kind | Fields |
|---|---|
| \`agent\` | those of \`GET /api/instances/:instanceId\`; no row for a deleted agent |
| \`heartbeats\` | \`hour\`, \`bucket_seconds\` (300), and 12 counts in each of \`heartbeats\`, \`events\`, \`tool_calls\`, \`reports\` |
| \`decoy_hits\` | \`id\`, \`at\`, \`key_id\`, and what was touched, by whom, with which tool |
| \`control_changes\` | those of a suspension or a resume in \`GET /api/events\` with control entries |
| \`suspensions\` | those of \`GET /api/instances/:instanceId/suspensions\` |
| \`rule_firings\` | \`seq\`, \`rule_id\`, \`version\`, \`mode\`, \`fired_at\`, \`created_at\`, \`group\`, \`events\`, \`responses\` |
| \`rule_versions\` | the rules that fired, as they were: \`rule_id\`, \`version\`, text, \`created_at\` |
| \`audit\` | [audit entries](#audit-log) |
| \`keys\` | \`id\`, \`scope\`, \`name\`, \`instances\`, \`created_at\`, \`expires_at\`, \`revoked_at\` |
| \`events\` | those of \`GET /api/events\` |

Later versions may add fields to rows.

## Audit log

The rows of all \`audit\` files are one sequence. Row *n* has the \`seq\` \`audit.after.seq\` + *n*, without gaps, and its \`prev_hash\` is the \`hash\` of the row before, for the first row \`audit.after.hash\`. \`seq\` and \`hash\` of the last row are those of \`audit.last\`; without rows, \`audit.last\` equals \`audit.after\`. Seq 0 is the beginning of the log, and its hash is 64 zeros. \`audit.head\` was the end of the log when the export began; nothing in the bundle proves it.

An entry of the log has all of these fields:

| Field | Type | In the hash |
|---|---|---|
| \`seq\` | whole number from 1 | number |
| \`at\` | time | number: milliseconds since 1970 |
| \`scope\` | text or null | text; null becomes \`""\` |
| \`actor\`, \`action\` | text | the same |
| \`ip\`, \`target\`, \`reason\`, \`request_id\` | text or null | the same |
| \`before\`, \`after\` | any JSON | the same |
| \`prev_hash\` | SHA-256 | text |
| \`hash\` | SHA-256 | no |
| \`actor_name\` | text or null | no |

Other fields are ignored. The hash is the SHA-256 of the line \`wardline-audit-v1\`, a line feed, and the 12 fields of the last column as canonical JSON in UTF-8. A line of \`${audit.name}\`:

${block(line, 'json')}

The hashed text, without a line feed at the end:

${block(text)}

Its bytes; their SHA-256 is \`${sha256(Buffer.from(text))}\`:

${block(hex(Buffer.from(text)))}

### Withheld entries

Entries about other agents, keys and decoys have exactly the fields \`seq\`, \`prev_hash\`, \`hash\` and \`withheld\`, which is \`true\`:

${block(lines[0]!, 'json')}

Their hash cannot be computed. Their \`seq\` and \`prev_hash\` are checked like those of others, and the next row, or \`audit.last\`, has their hash. A row with a field \`withheld\` and any other field or value is refused.

### Canonical JSON

RFC 8785. No white space; the fields of an object in the order of their UTF-16 code units; numbers are IEEE 754 doubles, written like ECMAScript does; in texts only \`"\`, \`\\\` and characters below U+0020 are escaped, as \`\\b\`, \`\\t\`, \`\\n\`, \`\\f\`, \`\\r\` where these exist, else \`\\u00xx\` with lower-case digits. A text with half of a surrogate pair and a number without a finite double have no canonical form: the entry does not match its hash.

| JSON | Canonical |
|---|---|
${Object.values(written)
  .map((json) => `| \`${json}\` | \`${canonicalJson(JSON.parse(json)).replace('\u2028', '(U+2028)')}\` |`)
  .join('\n')}

## Verification

Stop at the first fault. Report the file, and where the table says so, the block and the offset in the archive. The sentence that explains it is free.

| Step | Check | File | Offset |
|---|---|---|---|
| 1 | The archive has at least ${signatureMemberSize} bytes; the last ${signatureMemberSize} are a gzip member of 2,048 bytes, of which 512 to 1,023 are a JSON object | \`signature.json\` | size − ${signatureMemberSize}, at least 0 |
| 2 | \`format\` is a whole number above 1: refuse as an unknown version | \`signature.json\` | as in 1 |
| 3 | The fields are valid and in order; the member, rebuilt from them, is the same | \`signature.json\` | as in 1 |
| 4 | The member of \`manifest.json\`, whose size follows from \`manifest_bytes\`, begins at or after 0; rebuilt from its content, it is the same | \`manifest.json\` | where it begins, at least 0 |
| 5 | The signature matches | \`manifest.json\` | as in 4 |
| 6 | The fields of the manifest are valid; \`exported_at\` is \`signed_at\`; \`audit.after\` with seq 0 has the hash of 64 zeros | \`manifest.json\` | as in 4 |
| 7 | \`kid\` is that of \`public_key\`. With trusted keys: one has this \`kid\` and \`public_key\`, and \`valid_from\` ≤ \`signed_at\` ≤ \`valid_until\` (null: no end) | \`signature.json\` | none |
| 8 | Entry by entry: the name is the next one | \`manifest.json\` | none |
| | then: offset, sizes and number of blocks | that file | none |
| 9 | No kind is missing | \`manifest.json\` | none |
| 10 | The last file does not end before the manifest | \`manifest.json\` | none |
| | nor behind its begin | the last file | none |
| 11 | File by file, in order: the hash of each block | that file, with the block | where the block begins |
| | then: one gzip member of the right size; the tar file, rebuilt from name, content and \`signed_at\`, is the same; \`sha256\` | that file | none |
| | then: UTF-8, a line feed at the end, number of lines | that file | none |
| 12 | After an \`audit\` file, before the next one, row by row: the fields, \`seq\`, \`prev_hash\`, \`hash\` | that file | none |
| 13 | After the last \`audit\` file: \`audit.last\` | that file | none |

Without trusted keys, say what an intact bundle proves: nothing was altered since it was signed, but anyone could have signed it. Trusted keys are the \`evidence_keys\` of a copy of \`/.well-known/wardline-keys.json\`, which must not come with the bundle:

${block(vectorFile('keys.json').toString('utf8').trim(), 'json')}

Exit codes of both programs: 0 intact, 1 refused or unreadable, 2 the list of keys is invalid, 4 no list at the address, 64 wrong usage. With \`--json\` a fault is \`{"ok":false,"entry":…,"detail":…}\` with \`block\` and \`offset\`.

## Limits

| | |
|---|---|
| \`manifest.json\` | 16 MiB, for some 50,000 files |
| a file | 8 MiB; an export ends it after the row that exceeds 1 MiB |
| a member | 16 MiB |
| a range | ${incidentLimits.days} days, ${incidentLimits.auditEntries.toLocaleString('en')} audit entries |

Check sizes before you read, and unpack no more than the manifest says. Extract nothing to disk: a verifier needs one file in memory at a time.

## Versions

A change that a verifier of format 1 would judge wrongly gets another \`format\`. Every format ends with a member of ${signatureMemberSize} bytes as above whose JSON has \`format\`, so that a verifier names the version instead of an altered file. A verifier refuses versions that it does not know.

## Test vectors

[\`incident-bundle/\`](incident-bundle) has these files, and \`vectors.json\` the same list for programs. Their master secret is public: bundles with their keys prove nothing. Bundles whose fault is within the signed part are signed again by the same key.

| File | Keys | | Verdict |
|---|---|---|---|
${vectorRows.join('\n')}
`
}

/** What a pattern of the contract asks for, in words that follow the name of the field. */
const rules: Record<string, string> = {
  '^[a-z0-9_-]+$': 'may contain only lower-case letters, digits, _ and -',
  '^[a-z0-9_]+$': 'may contain only lower-case letters, digits and _',
  '^[a-z0-9_]+(,[a-z0-9_]+)*$': 'must be types of events, separated by commas',
  '^[a-z0-9_]+\\*?$': 'must be a type of event, or a prefix followed by *',
  '^[a-z0-9_-]+\\*?$': 'must be an instance id, or a prefix followed by *; * alone is refused',
  '^[0-9]{1,15}$': 'must be a whole number',
  '^[0-9a-z]{8}$': 'must be a key id',
  '^[a-z_]{1,40}\\.([a-z_]{1,40}|\\*)$': 'must be an action such as instance.suspend, or a group such as key.*',
  '\\S': 'must not be blank',
  '^https?://': 'must be an http:// or https:// URL',
  '^https?://[^/?#]+/[^?#]*[^/?#]/?$': 'must be the http:// or https:// URL of a topic, such as https://ntfy.sh/alerts',
  '^[!-~]+$': 'may contain only visible ASCII characters, and no spaces',
  '^[^\\s<>,;:"@]{1,64}@[^\\s<>,;:"@]{1,255}$': 'must be a mail address, without a name',
  '^whsec_[A-Za-z0-9+/]{32,86}={0,2}$': 'must be whsec_ and the base64 of 24 to 64 bytes',
  '^[0-9]{1,20}:[A-Za-z0-9_-]{10,100}$': 'must be the token of a bot, such as 123456:ABC-DEF',
  '^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$': 'must be the number of a chat, or @ and the name of a channel',
  '^[A-Za-z0-9]{32}$': 'must be 32 letters and digits',
  '^smtps?://': 'must be smtp://<user>:<password>@<host>:<port>, or smtps://… for TLS from the first byte',
  '^(tcp|tls)://': 'must be tcp://<host>:<port>, or tls://… for TLS',
  '^([01][0-9]|2[0-3]):[0-5][0-9]$': 'must be a time of day such as 07:30',
}

/** The rule of a pattern, to be put behind the name of a field. */
export function patternRule(pattern: string): string {
  if (pattern.startsWith('^([0-9a-f]{8}-'))
    return 'must be a UUID, or env-<type> for a channel set by environment variables'
  if (pattern.startsWith('^[0-9a-f]{8}-')) return 'must be a UUID'
  if (pattern.startsWith('^\\d{4}-')) return 'must be an ISO 8601 instant'
  return rules[pattern] ?? 'does not have the expected format'
}

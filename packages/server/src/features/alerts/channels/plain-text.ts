import { cutText, replaceUnsafe } from '@wardline/text'

/**
 * Sanitizes a text of unknown origin: one line, without control or hidden characters, and with `[:]//` for `://`. Chats
 * would turn a URL into a link, which could lead the person on call to an attacker's page.
 */
export const plainText = (text: string, maxLength = 1_000): string =>
  cutText(replaceUnsafe(text.replaceAll(/\s+/gu, ' '), '\ufffd').replaceAll('://', '[:]//').trim(), maxLength)

/** A dot before a possible top-level domain, also in the full-width forms that browsers treat as a dot. */
const domainDot = /(?<=[\p{L}\p{N}\p{M}_-])[.\u3002\uff0e\uff61](?=\p{L}[\p{L}\p{N}\p{M}-])/gu
const lastDotOfAddress = /(?<=\b\d{1,3}\.\d{1,3}\.\d{1,3})\.(?=\d)/g

/**
 * Defangs a text for media that always turn bare domains, IP addresses and mail addresses into links: `evil.com`
 * becomes `evil[.]com`, as is usual in incident reports. File names such as `config.json` look like domains and are
 * changed too; numbers are not.
 */
export const unlinked = (text: string): string =>
  text.replaceAll(domainDot, '[.]').replaceAll(lastDotOfAddress, '[.]').replaceAll('@', '[@]')

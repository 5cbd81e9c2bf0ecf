import { cutText, replaceUnsafe } from '@wardline/text'

/**
 * Text of unknown origin as one line, without controls or hidden characters, and with no address that a chat turns into
 * a link: the person on call must not land on an attacker's page.
 */
export const plainText = (text: string, maxLength = 1_000): string =>
  cutText(replaceUnsafe(text.replaceAll(/\s+/gu, ' '), '\ufffd').replaceAll('://', '[:]//').trim(), maxLength)

/** A dot between a name and what may be a top-level domain, also in the full-width forms that browsers take for a dot. */
const domainDot = /(?<=[\p{L}\p{N}\p{M}_-])[.\u3002\uff0e\uff61](?=\p{L}[\p{L}\p{N}\p{M}-])/gu
const lastDotOfAddress = /(?<=\b\d{1,3}\.\d{1,3}\.\d{1,3})\.(?=\d)/g

/**
 * For media that turn bare domains, addresses and mail addresses into links and cannot be configured not to: `evil.com` becomes
 * `evil[.]com`, the way in which people who handle attacks write it. File names such as `config.json` look like domains
 * and are changed too; numbers are not.
 */
export const unlinked = (text: string): string =>
  text.replaceAll(domainDot, '[.]').replaceAll(lastDotOfAddress, '[.]').replaceAll('@', '[@]')

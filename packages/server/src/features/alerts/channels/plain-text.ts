/** What a terminal, a chat or a mail program may obey instead of show: controls, line separators, directions, tags. */
const unshown = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu

/**
 * Text of unknown origin as one line that shows what it is: no controls, no hidden characters, and no address that a
 * chat turns into a link, so that nobody on call is led to an attacker's page by one press.
 */
export function plainText(text: string, most = 1_000): string {
  const shown = text.replaceAll(/\s+/gu, ' ').replaceAll(unshown, '\ufffd').replaceAll('://', '[:]//').trim()
  const characters = Array.from(shown)
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : shown
}

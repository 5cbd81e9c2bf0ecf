import { serviceSource } from '@wardline/contract'

const between = '[^\\p{L}\\p{N}]*'
const serviceName = new RegExp(`^${between}${[...serviceSource].join(between)}${between}$`, 'iu')
const beyondAscii = /[^ -~]/
/** Includes some letters, such as the Hangul fillers. */
const invisible = /\p{Default_Ignorable_Code_Point}+/gu

/**
 * Whether people could mistake a source for the service's own name: in any case, with spaces, marks or invisible
 * characters in between, or in full-width or accented letters. Similar letters of other scripts are not detected; the
 * reliable field is `by_service`.
 */
export const isServiceName = (source: string): boolean =>
  // For speed: this runs for every event, and most sources differ in the first letter.
  serviceName.test(beyondAscii.test(source) ? source.normalize('NFKD').replace(invisible, '') : source)

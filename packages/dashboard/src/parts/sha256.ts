import { sha256 } from '@noble/hashes/sha2.js'
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js'

/** Returns the hex SHA-256 of a text. The browser's own is only for pages over HTTPS and on localhost. */
export const sha256Hex = (text: string): string => bytesToHex(sha256(utf8ToBytes(text)))

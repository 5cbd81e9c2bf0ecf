import { readFileSync } from 'node:fs'

// Loaded before the service by --import. It adds the milliseconds in the file CLOCK_SHIFT_FILE to the wall clock,
// so that a test need not wait for hours.
const shift = Number(readFileSync(process.env.CLOCK_SHIFT_FILE ?? '', 'utf8'))
const now = Date.now
Date.now = () => now() + shift

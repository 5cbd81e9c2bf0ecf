import { readFileSync } from 'node:fs'

// Loaded before the service by --import: its wall clock then runs ahead by what the file named in CLOCK_SHIFT_FILE says
// (milliseconds), so that a test need not wait for hours.
const shift = Number(readFileSync(process.env.CLOCK_SHIFT_FILE ?? '', 'utf8'))
const now = Date.now
Date.now = () => now() + shift

/** How much a long test does: bounded in an ordinary run, its full measure with `npm run test:nightly`. */
export const effort = <Amount>(ordinary: Amount, nightly: Amount): Amount =>
  process.env.TEST_EFFORT === 'nightly' ? nightly : ordinary

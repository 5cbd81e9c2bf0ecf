/** Amount of work of a long test: small in ordinary runs, full with `npm run test:nightly`. */
export const effort = <Amount>(ordinary: Amount, nightly: Amount): Amount =>
  process.env.TEST_EFFORT === 'nightly' ? nightly : ordinary

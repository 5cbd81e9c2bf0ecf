/** What the command line finds of the service that runs in the same folder. */
export const dataFolder = {
  /** Default of WARDLINE_DATA_DIR. */
  path: './data',
  /** File in it with the address of the service while it runs. */
  addressFile: 'address',
}

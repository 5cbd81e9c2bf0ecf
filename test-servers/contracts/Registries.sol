// SPDX-License-Identifier: Apache-2.0
// Small contracts with the interfaces that the service uses, for the chain of the tests alone.
pragma solidity ^0.8.0;

/// ERC-8004: agents are numbered from 0, as in its reference implementation.
contract IdentityRegistry {
    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);

    mapping(uint256 => address) owners;
    mapping(uint256 => address) wallets;
    mapping(uint256 => string) uris;
    uint256 next;

    function register(string calldata agentURI) external returns (uint256 agentId) {
        agentId = next++;
        owners[agentId] = msg.sender;
        wallets[agentId] = msg.sender;
        uris[agentId] = agentURI;
        emit Registered(agentId, agentURI, msg.sender);
    }

    function ownerOf(uint256 agentId) public view returns (address) {
        require(owners[agentId] != address(0), "unknown agent");
        return owners[agentId];
    }

    function getAgentWallet(uint256 agentId) external view returns (address) {
        return wallets[agentId];
    }

    function tokenURI(uint256 agentId) external view returns (string memory) {
        return uris[agentId];
    }

    function setWallet(uint256 agentId, address wallet) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        wallets[agentId] = wallet;
    }

    function transfer(uint256 agentId, address to) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        owners[agentId] = to;
        wallets[agentId] = address(0);
    }
}

struct SchemaRecord {
    bytes32 uid;
    address resolver;
    bool revocable;
    string schema;
}

contract SchemaRegistry {
    mapping(bytes32 => SchemaRecord) schemas;

    function register(string calldata schema, address resolver, bool revocable) external returns (bytes32 uid) {
        uid = keccak256(abi.encodePacked(schema, resolver, revocable));
        require(schemas[uid].uid == 0, "AlreadyExists");
        schemas[uid] = SchemaRecord(uid, resolver, revocable, schema);
    }

    function getSchema(bytes32 uid) external view returns (SchemaRecord memory) {
        return schemas[uid];
    }
}

struct Attestation {
    bytes32 uid;
    bytes32 schema;
    uint64 time;
    uint64 expirationTime;
    uint64 revocationTime;
    bytes32 refUID;
    address recipient;
    address attester;
    bool revocable;
    bytes data;
}

contract EAS {
    struct AttestationRequestData {
        address recipient;
        uint64 expirationTime;
        bool revocable;
        bytes32 refUID;
        bytes data;
        uint256 value;
    }
    struct AttestationRequest {
        bytes32 schema;
        AttestationRequestData data;
    }
    struct RevocationRequestData {
        bytes32 uid;
        uint256 value;
    }
    struct RevocationRequest {
        bytes32 schema;
        RevocationRequestData data;
    }

    event Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);

    SchemaRegistry immutable registry;
    mapping(bytes32 => Attestation) attestations;
    /// How often each data was attested: more than once is what the tests look for.
    mapping(bytes32 => uint256) public times;
    uint256 public count;

    constructor(SchemaRegistry schemaRegistry) {
        registry = schemaRegistry;
    }

    function attest(AttestationRequest calldata request) external payable returns (bytes32 uid) {
        require(registry.getSchema(request.schema).uid != 0, "InvalidSchema");
        AttestationRequestData calldata given = request.data;
        uid = keccak256(abi.encodePacked(request.schema, given.recipient, msg.sender, block.timestamp, given.data, count));
        attestations[uid] = Attestation(
            uid, request.schema, uint64(block.timestamp), given.expirationTime, 0, given.refUID, given.recipient, msg.sender,
            given.revocable, given.data
        );
        times[keccak256(given.data)]++;
        count++;
        emit Attested(given.recipient, msg.sender, uid, request.schema);
    }

    function revoke(RevocationRequest calldata request) external payable {
        Attestation storage attestation = attestations[request.data.uid];
        require(attestation.attester == msg.sender && attestation.revocationTime == 0, "refused");
        attestation.revocationTime = uint64(block.timestamp);
    }

    function getAttestation(bytes32 uid) external view returns (Attestation memory) {
        return attestations[uid];
    }
}

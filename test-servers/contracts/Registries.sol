// SPDX-License-Identifier: Apache-2.0
// Small contracts with the interfaces that the service uses, for the chain of the tests alone.
pragma solidity ^0.8.0;

/// ERC-8004: agents are numbered from 0, as in its reference implementation.
contract IdentityRegistry {
    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event URIUpdated(uint256 indexed agentId, string newURI, address indexed updatedBy);
    event MetadataUpdate(uint256 tokenId);

    error ERC721NonexistentToken(uint256 tokenId);

    mapping(uint256 => address) owners;
    mapping(uint256 => address) wallets;
    mapping(uint256 => string) uris;
    mapping(uint256 => address) approvals;
    mapping(address => mapping(address => bool)) operators;
    uint256 next;

    function register(string calldata agentURI) external returns (uint256 agentId) {
        agentId = next++;
        owners[agentId] = msg.sender;
        wallets[agentId] = msg.sender;
        uris[agentId] = agentURI;
        emit Registered(agentId, agentURI, msg.sender);
    }

    function balanceOf(address owner) external view returns (uint256 count) {
        for (uint256 agentId = 0; agentId < next; agentId++) if (owners[agentId] == owner) count++;
    }

    function ownerOf(uint256 agentId) public view returns (address) {
        if (owners[agentId] == address(0)) revert ERC721NonexistentToken(agentId);
        return owners[agentId];
    }

    /// ERC-165 itself, ERC-721, and ERC-4906 for addresses of documents that change.
    function supportsInterface(bytes4 id) external pure returns (bool) {
        return id == 0x01ffc9a7 || id == 0x80ac58cd || id == 0x49064906;
    }

    function getAgentWallet(uint256 agentId) external view returns (address) {
        return wallets[agentId];
    }

    function tokenURI(uint256 agentId) external view returns (string memory) {
        ownerOf(agentId);
        return uris[agentId];
    }

    /// The owner, an operator of all its agents, or the account approved for this one.
    function setAgentURI(uint256 agentId, string calldata newURI) external {
        address owner = ownerOf(agentId);
        bool isAllowed = msg.sender == owner || operators[owner][msg.sender] || msg.sender == approvals[agentId];
        require(isAllowed, "Not authorized");
        uris[agentId] = newURI;
        emit MetadataUpdate(agentId);
        emit URIUpdated(agentId, newURI, msg.sender);
    }

    function approve(address to, uint256 agentId) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        approvals[agentId] = to;
    }

    function setApprovalForAll(address operator, bool approved) external {
        operators[msg.sender][operator] = approved;
    }

    function setWallet(uint256 agentId, address wallet) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        wallets[agentId] = wallet;
    }

    function transfer(uint256 agentId, address to) external {
        require(ownerOf(agentId) == msg.sender, "not the owner");
        owners[agentId] = to;
        wallets[agentId] = address(0);
        approvals[agentId] = address(0);
    }
}

struct SchemaRecord {
    bytes32 uid;
    address resolver;
    bool revocable;
    string schema;
}

contract SchemaRegistry {
    error AlreadyExists();

    mapping(bytes32 => SchemaRecord) schemas;

    function register(string calldata schema, address resolver, bool revocable) external returns (bytes32 uid) {
        uid = keccak256(abi.encodePacked(schema, resolver, revocable));
        if (schemas[uid].uid != 0) revert AlreadyExists();
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

    error InvalidSchema();
    error NotFound();
    error AccessDenied();
    error AlreadyRevoked();

    event Attested(address indexed recipient, address indexed attester, bytes32 uid, bytes32 indexed schemaUID);

    SchemaRegistry immutable registry;
    mapping(bytes32 => Attestation) attestations;
    /// How often each data was attested: more than once is what the tests look for.
    mapping(bytes32 => uint256) public times;
    uint256 public count;

    constructor(SchemaRegistry schemaRegistry) {
        registry = schemaRegistry;
    }

    function getSchemaRegistry() external view returns (address) {
        return address(registry);
    }

    function attest(AttestationRequest calldata request) external payable returns (bytes32 uid) {
        if (registry.getSchema(request.schema).uid == 0) revert InvalidSchema();
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
        if (attestation.uid == 0) revert NotFound();
        if (attestation.attester != msg.sender) revert AccessDenied();
        if (attestation.revocationTime != 0) revert AlreadyRevoked();
        attestation.revocationTime = uint64(block.timestamp);
    }

    function getAttestation(bytes32 uid) external view returns (Attestation memory) {
        return attestations[uid];
    }
}

/// ERC-8004: only an agent's owner asks, only the named validator answers, and no hash is asked for twice.
contract ValidationRegistry {
    struct Status {
        address validator;
        uint256 agentId;
        uint8 response;
        bytes32 responseHash;
        string tag;
        uint256 lastUpdate;
    }

    event ValidationRequest(address indexed validator, uint256 indexed agentId, string requestURI, bytes32 indexed requestHash);
    event ValidationResponse(
        address indexed validator, uint256 indexed agentId, bytes32 indexed requestHash, uint8 response,
        string responseURI, bytes32 responseHash, string tag
    );

    IdentityRegistry immutable identity;
    mapping(bytes32 => Status) statuses;
    /// Requests and responses: more than were meant is what the tests look for.
    uint256 public requests;
    uint256 public responses;

    constructor(IdentityRegistry identityRegistry) {
        identity = identityRegistry;
    }

    function getIdentityRegistry() external view returns (address) {
        return address(identity);
    }

    function validationRequest(address validator, uint256 agentId, string calldata requestURI, bytes32 requestHash) external {
        require(identity.ownerOf(agentId) == msg.sender, "not the owner");
        require(statuses[requestHash].validator == address(0), "exists");
        statuses[requestHash].validator = validator;
        statuses[requestHash].agentId = agentId;
        statuses[requestHash].lastUpdate = block.timestamp;
        requests++;
        emit ValidationRequest(validator, agentId, requestURI, requestHash);
    }

    function validationResponse(
        bytes32 requestHash, uint8 response, string calldata responseURI, bytes32 responseHash, string calldata tag
    ) external {
        Status storage status = statuses[requestHash];
        require(status.validator != address(0), "unknown");
        require(status.validator == msg.sender, "not the validator");
        require(response <= 100, "resp>100");
        status.response = response;
        status.responseHash = responseHash;
        status.tag = tag;
        status.lastUpdate = block.timestamp;
        responses++;
        emit ValidationResponse(msg.sender, status.agentId, requestHash, response, responseURI, responseHash, tag);
    }

    function getValidationStatus(bytes32 requestHash)
        external view returns (address, uint256, uint8, bytes32, string memory, uint256)
    {
        Status storage status = statuses[requestHash];
        require(status.validator != address(0), "unknown");
        return (status.validator, status.agentId, status.response, status.responseHash, status.tag, status.lastUpdate);
    }
}

/// ERC-8004: feedback by others than the agent's owner, numbered from 1. Its hash is in the event alone.
contract ReputationRegistry {
    struct Feedback {
        int128 value;
        uint8 valueDecimals;
        string tag1;
        string tag2;
        bool isRevoked;
    }

    event NewFeedback(
        uint256 indexed agentId, address indexed clientAddress, uint64 feedbackIndex, int128 value, uint8 valueDecimals,
        string indexed indexedTag1, string tag1, string tag2, string endpoint, string feedbackURI, bytes32 feedbackHash
    );

    IdentityRegistry immutable identity;
    mapping(uint256 => mapping(address => Feedback[])) feedbacks;
    uint256 public count;

    constructor(IdentityRegistry identityRegistry) {
        identity = identityRegistry;
    }

    function getIdentityRegistry() external view returns (address) {
        return address(identity);
    }

    // Strings in memory take one place of the stack instead of two.
    function giveFeedback(
        uint256 agentId, int128 value, uint8 valueDecimals, string memory tag1, string memory tag2,
        string memory endpoint, string memory feedbackURI, bytes32 feedbackHash
    ) external {
        require(valueDecimals <= 18, "too many decimals");
        require(identity.ownerOf(agentId) != msg.sender, "Self-feedback not allowed");
        feedbacks[agentId][msg.sender].push(Feedback(value, valueDecimals, tag1, tag2, false));
        count++;
        emit NewFeedback(
            agentId, msg.sender, uint64(feedbacks[agentId][msg.sender].length), value, valueDecimals, tag1, tag1, tag2,
            endpoint, feedbackURI, feedbackHash
        );
    }

    function revokeFeedback(uint256 agentId, uint64 feedbackIndex) external {
        require(feedbackIndex > 0, "index must be > 0");
        require(feedbackIndex <= feedbacks[agentId][msg.sender].length, "index out of bounds");
        require(!feedbacks[agentId][msg.sender][feedbackIndex - 1].isRevoked, "Already revoked");
        feedbacks[agentId][msg.sender][feedbackIndex - 1].isRevoked = true;
    }

    function getLastIndex(uint256 agentId, address client) external view returns (uint64) {
        return uint64(feedbacks[agentId][client].length);
    }

    function readFeedback(uint256 agentId, address client, uint64 feedbackIndex)
        external view returns (int128, uint8, string memory, string memory, bool)
    {
        require(feedbackIndex > 0, "index must be > 0");
        require(feedbackIndex <= feedbacks[agentId][client].length, "index out of bounds");
        Feedback storage given = feedbacks[agentId][client][feedbackIndex - 1];
        return (given.value, given.valueDecimals, given.tag1, given.tag2, given.isRevoked);
    }
}

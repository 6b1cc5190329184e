package dev.klamm.checkpoints;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;

/**
 * The file system of Spark's checkpoints if `fs.AbstractFileSystem.file.impl` names this class. Writes no `.crc` files
 * and forks no process. Spark relies on rename: here it is atomic, also over an existing file, which Hadoop deletes
 * first.
 */
public class CheckpointLocalFs extends DelegateToFileSystem {
    /** Has the signature that Hadoop requires. */
    CheckpointLocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
        this(uri, conf, new JvmLocalFileSystem());
    }

    private CheckpointLocalFs(URI uri, Configuration conf, RawLocalFileSystem files)
            throws IOException, URISyntaxException {
        super(uri, files, conf, FsConstants.LOCAL_FS_URI.getScheme(), false);
    }

    @Override
    public void renameInternal(Path source, Path target, boolean overwrite) throws IOException {
        java.nio.file.Path from = local(source);
        java.nio.file.Path to = local(target);
        if (Files.isDirectory(from)) {
            super.renameInternal(source, target, overwrite);
            return;
        }
        if (!overwrite && Files.exists(to)) {
            throw new FileAlreadyExistsException("rename destination " + target + " already exists.");
        }
        try {
            Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
        } catch (NoSuchFileException missing) {
            throw new FileNotFoundException("rename source " + source + " or the folder of " + target + " not found.");
        }
        // A checksum file from an earlier session would no longer match the replaced file.
        Files.deleteIfExists(to.resolveSibling("." + to.getFileName() + ".crc"));
    }

    private java.nio.file.Path local(Path path) {
        return new File(path.toUri().getPath()).toPath();
    }

    @Override
    public int getUriDefaultPort() {
        return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
        return getServerDefaults();
    }

    @Override
    @Deprecated
    public FsServerDefaults getServerDefaults() throws IOException {
        return LocalConfigKeys.getServerDefaults();
    }

    /** Accepts every name: the operating system checks names. */
    @Override
    public boolean isValidName(String name) {
        return true;
    }
}
